"""Convergence studies that survive anything."""
