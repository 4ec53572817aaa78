"""A live experiment in a file."""
