"""PyTorch code as pipelines: the backend ``autosched`` of `torch.compile`."""

from autosched.torch.explanation import Explanation, GraphReport, RegionReport, explain
from autosched.torch.options import Options

__all__ = ["Explanation", "GraphReport", "Options", "RegionReport", "explain"]
