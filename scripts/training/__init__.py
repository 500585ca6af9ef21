"""Data sets and training runs defined by configurations."""
