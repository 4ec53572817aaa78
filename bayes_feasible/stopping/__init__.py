"""When an experiment may end: the stop itself, and one file for each reason."""
