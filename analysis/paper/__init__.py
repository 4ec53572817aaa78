"""The experiments and claims of the paper, run and reported.

`python -m bayes_feasible.analysis.paper --out DIR` runs everything and writes figures, numbers
(netCDF) and the table of claims; `--only NAME` runs one part. What is already in the folder and
was made with the same settings is kept.
"""
