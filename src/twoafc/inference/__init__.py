"""Scores with error bars: what is clustered, standard errors, paired comparisons, ceilings, goodness of fit."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
