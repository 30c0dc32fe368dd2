"""Benchmarks: one command each, and all of them by ``python -m benchmarks``."""
