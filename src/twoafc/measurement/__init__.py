"""Measuring: a data set's images and a list of distances to a table of votes and distances.

`run` has the story from top to bottom: `plan` says what is to be measured, `candidates` makes the distances,
`executors` and `cluster` have blocks measured (`block`), and `journal` keeps the values, if their `identity` allows it.
Ctrl-C ends a run wherever it arrives (`interruption`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
