"""The result of an evaluation: one object, its folder, report, tables, comparisons and lists of failures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
