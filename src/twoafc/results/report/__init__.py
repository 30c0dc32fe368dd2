"""A result as one page: self-contained HTML that needs no script, no network and no other file."""
