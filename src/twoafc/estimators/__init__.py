"""Estimators of P: settings with `fit(table)` return fits with `probability(d0, d1)`, or `probability(d)` of pairs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
