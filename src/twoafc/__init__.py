"""Score perceptual distances on two-alternative forced-choice (2AFC) votes, by likelihood.

>>> import twoafc
>>> train = twoafc.Triplets.from_frame(twoafc.worlds.simulate("weber", triplets=5000, votes=2, seed=1))
>>> test = twoafc.Triplets.from_frame(twoafc.worlds.simulate("weber", triplets=1000, votes=5, seed=2))
>>> P = twoafc.Density().fit(train).probability(test.d0, test.d1)
>>> round(twoafc.metrics.nll(test.n, test.M, P), 2)
1.13
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__.remove("torch")  # `from twoafc import *` must not hide the library of that name
