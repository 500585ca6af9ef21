"""Fits of the coefficients of the analytical models to measured times."""
