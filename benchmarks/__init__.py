"""Benchmarks, each by one command from the repository's root: ``python -m benchmarks NAME [OPTIONS]``."""
