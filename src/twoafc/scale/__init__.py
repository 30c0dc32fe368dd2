"""Tables larger than memory, or on a cluster, as counts on a lattice of distances, which add up and serve as rows."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
