"""Figures: functions `(values, ax) -> Axes` that draw given values, and two that compute values from a fit."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
