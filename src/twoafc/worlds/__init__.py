"""Simulated votes with a known probability P: from drawn distances, or from distorted photographs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
