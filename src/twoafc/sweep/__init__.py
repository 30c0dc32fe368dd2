"""How much the kernel's width and the number of nodes matter: scores against sigma and grid size, with error bars."""

from twoafc.sweep.found import Sweep
from twoafc.sweep.sweep import GRID_SIZES, SIGMAS, sweep

__all__ = ["GRID_SIZES", "SIGMAS", "Sweep", "sweep"]
