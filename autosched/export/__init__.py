"""A scheduled pipeline as C or CUDA source for projects without Python: sources, header, build files, example."""

from autosched.export.writer import Exported, export

__all__ = ["Exported", "export"]
