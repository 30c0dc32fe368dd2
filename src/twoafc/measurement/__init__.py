"""Measuring: a data set's images and a list of distances to a table of votes and distances.

`run` has the story from top to bottom: `plan` says what is to be measured, `candidates` makes the distances,
`executors` and `cluster` measure blocks (`block`), and `journal` keeps the values, by their `identity`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
