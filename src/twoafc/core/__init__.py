"""Pure functions of arrays: the binomial law and the map of distances to [0, 1]."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
