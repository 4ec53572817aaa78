"""The commands of `bayes-feasible`, one file a command.

Each file has `add`, which declares the arguments, and `run`, which does the work. Files are
imported to print help, so what is heavy is imported inside functions.
"""
