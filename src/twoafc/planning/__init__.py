"""Studies: how many votes, which triplets to ask, when to stop; and a decision for continuous integration."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
