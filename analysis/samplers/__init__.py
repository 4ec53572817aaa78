"""Samplers of alternative sets, judged by exact draws."""
