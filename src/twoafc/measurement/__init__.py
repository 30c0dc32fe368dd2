"""Measuring: a data set's images and a list of distances to a table of votes and distances."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
