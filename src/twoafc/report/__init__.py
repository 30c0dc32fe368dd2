"""Results as one page: self-contained HTML that needs no script, no network and no other file."""

from twoafc.report.page import FILE, page, put, render, write

__all__ = ["FILE", "page", "put", "render", "write"]
