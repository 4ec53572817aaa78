"""Figures, tables and the page."""
