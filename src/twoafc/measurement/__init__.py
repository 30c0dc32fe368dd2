"""Measuring: a data set's images and a list of distances to a table of votes and distances.

`plan` says what is to be measured, `block` measures some of it, `worker` and `pool` do so in several processes,
`cluster` and `remote` on the workers of a Dask cluster (`flight`, `watch`, `shipping`, `scheduler` are theirs), `parts`
keeps what is finished, `traces` and `origin` tell whether images and distances are those of before, `outfile` is the
table with its card, and `run` puts them together. Nothing is imported here: the worker processes need little of it.
"""
