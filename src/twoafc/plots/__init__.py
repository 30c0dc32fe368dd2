"""Figures: functions `(values, ax) -> Axes` that draw given values and compute nothing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
