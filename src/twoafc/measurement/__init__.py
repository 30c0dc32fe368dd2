"""Measuring: a data set's images and a list of distances to a table of votes and distances.

Start with `run`: `plan` lists the items to measure, `candidates` makes the distances, which `run` tries on the first
items, `executors` and `cluster` measure blocks of items (`block`), and `journal` stores the values, which are reused if
the `identity` of the distance and the traces of the images are the same.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
