"""Sampling rules, one file each."""
