"""Fits of the analytical models' coefficients to measured times."""
