"""The one loop: fit, predict, cross-validate, refit; its settings, and sweeps of the density estimator's."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
