"""Results as one page: self-contained HTML that needs no script, no network and no other file."""

from twoafc.report.page import page, put, render, write

__all__ = ["page", "put", "render", "write"]
