"""PyTorch code as pipelines: the backend ``autosched`` of `torch.compile`, and pipelines as operators of PyTorch.

Main modules: `backend`, `explanation`, `options`; `custom_op` has `autosched.torch_operator`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.torch import explanation as explanation
    from autosched.torch.explanation import Explanation, GraphReport, RegionReport, explain
    from autosched.torch.options import Options

__all__ = ["Explanation", "GraphReport", "Options", "RegionReport", "explain"]

_MODULES = {name: "options" if name == "Options" else "explanation" for name in __all__}
"""Modules of these names, imported at first use: the backend needs another version of PyTorch than operators."""


def __getattr__(name: str) -> Any:
    if name == "explanation":
        return import_module("autosched.torch.explanation")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
