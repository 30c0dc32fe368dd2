"""Weights and data sets: what is installed, what is missing, and how to get it; nothing is downloaded unasked.

>>> import twoafc.fetch
>>> [file.name for file in twoafc.fetch.chosen(["dists"])]
['vgg16', 'dists_alpha_beta']
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
