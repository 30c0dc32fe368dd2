"""Checks of data, and of how well a fit describes them."""

from twoafc.diagnostics.checks import check
from twoafc.diagnostics.finding import Finding

__all__ = ["Finding", "check"]
