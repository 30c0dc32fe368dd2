"""Weights and data sets: what is there, what is missing, and how it comes; nothing is ever downloaded unasked.

>>> import twoafc.fetch
>>> [file.name for file in twoafc.fetch.chosen(["dists"])]
['vgg16', 'dists_alpha_beta']
"""

from twoafc.fetch.obtain import Got, get, import_file
from twoafc.fetch.places import data_folder, weights_folder
from twoafc.fetch.registry import Archive, chosen, known
from twoafc.fetch.state import State, status, verify

__all__ = [
    "Archive",
    "Got",
    "State",
    "chosen",
    "data_folder",
    "get",
    "import_file",
    "known",
    "status",
    "verify",
    "weights_folder",
]
