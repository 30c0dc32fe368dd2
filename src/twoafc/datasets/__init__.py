"""Data sets of votes on images: one reader per layout on disk, and one `Dataset` with the same orientation from all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
