"""Distances between images, by name.

A distance is a callable ``(ref, x) -> (B,)`` on float batches (B, 3, H, W) in [0, 1], numpy arrays or torch tensors.
Its result is at least 0, and 0 for equal images; smaller means closer. Distances with a network need torch and their
weights, which are read when `distance` is called; they also have a faster method ``triplet(ref, x0, x1) -> (d0, d1)``.
`distance` also accepts your own callable, and names of distances of other libraries.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
