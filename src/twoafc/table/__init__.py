"""`Votes`, the one table: how it is read, checked, merged, joined and split."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
