"""Functions compiled by the backend, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

FAST = {"strategy": "roots", "fallback": "error"}


def compiled(function: Callable[..., Any], **keywords: Any) -> Callable[..., Any]:
    """Return a function compiled with quick options.

    Args:
        function: The function, or a module.
        **keywords: Options of the backend, and those of `torch.compile` that are named here.
    """
    torch._dynamo.reset()
    of_torch = {name: keywords.pop(name) for name in ("dynamic", "fullgraph") if name in keywords}
    return torch.compile(function, backend="autosched", options={**FAST, **keywords}, **of_torch)
