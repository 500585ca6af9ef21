"""The version of the package; any module may import it."""

__version__ = "0.1.0"
