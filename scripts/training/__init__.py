"""Data sets and training runs, as configurations describe them."""
