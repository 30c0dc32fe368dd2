"""Triplets counted on a fixed lattice of raw distances: what merges exactly, and what large fits start from."""

from twoafc.counts.counts import Counts, merge
from twoafc.counts.lattice import Lattice
from twoafc.counts.table import tally

__all__ = ["Counts", "Lattice", "merge", "tally"]
