"""The paper's experiments, tables and figures, on its data sets or on generated ones in their layouts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
