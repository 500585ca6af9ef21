"""Decompositions of ATen operators before graphs are partitioned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._decomp import _core_aten_decompositions_post_autograd, get_decompositions

aten = torch.ops.aten

_STATISTICS = (
    aten._softmax, aten._log_softmax, aten.native_layer_norm, aten.native_group_norm, aten.native_batch_norm,
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training, aten._batch_norm_with_update_functional, aten._batch_norm_no_update,
    aten.batch_norm_backward, aten.linalg_vector_norm,
)  # fmt: skip
"""Operators of statistics and elementwise work. Divided, a backward pass keeps the statistics alone and computes the
elements again. Whole ones would be kept: the min-cut partitioner recomputes neither reductions nor normalisations."""
_TRANSLATED = (
    aten._unsafe_index, aten._unsafe_index_put, aten._unsafe_masked_index, aten._unsafe_masked_index_put_accumulate,
    aten.select_scatter, aten.index_add, aten.index_copy, aten._scaled_dot_product_flash_attention_for_cpu,
)  # fmt: skip
"""Operators of PyTorch's core decompositions that are kept. Most have a translation of their own: unsafe indices need
no check, and negative indices of slices are errors. Attention on CPUs is PyTorch's, in whose strides results come."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return torch's decompositions to core ATen operators, and those of normalisations."""
    return dict(_decompositions())


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    # Without composite operators, as `core_aten_decompositions` has them: tracing decomposes those itself, and their
    # list takes PyTorch 0.1 s.
    core: dict[Any, Callable[..., Any]] = _core_aten_decompositions_post_autograd()
    divided = {o: rule for o, rule in core.items() if getattr(o, "overloadpacket", None) not in _TRANSLATED}
    return {**divided, **get_decompositions(_STATISTICS), aten.stack.default: stack}


def stack(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """Join tensors along a new dimension, which stays one of its own: tiles of one place have all its tensors.

    PyTorch's decomposition joins them along the next dimension and views the result.
    """
    axis = dim % (tensors[0].ndim + 1)
    return torch.cat([t.unsqueeze(axis) for t in tensors], axis)
