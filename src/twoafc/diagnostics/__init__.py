"""Checks of tables: common mistakes in votes and distances, reported as findings."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
