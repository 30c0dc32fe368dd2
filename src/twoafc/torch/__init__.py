"""For training loops in torch: the votes' likelihood as a loss, and as a metric of torchmetrics.

Torch itself is imported when one of these names is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
