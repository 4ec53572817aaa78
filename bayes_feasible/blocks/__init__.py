"""Posteriors of one block of parameters: what every kind of outcome answers alike.

A block knows the log-probability of half-spaces and draws given one; from these alone come the
probability of a mistake and draws from an alternative set.
"""
