"""Lowerings of tensors whose elements are not defined before they are written."""

from __future__ import annotations

from typing import Any

import torch

from autosched.torch.lowerings.pointwise import constant
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import TensorValue, element_type

aten = torch.ops.aten


@register(aten.empty.memory_format, aten.new_empty_strided.default, aten.empty_strided.default)
def lower_empty(context: LoweringContext, *_: Any, **__: Any) -> TensorValue:
    """Make a tensor; functional graphs write what they read of it, so that zeros are as good as other numbers."""
    zero = constant(0, element_type(context.fake.dtype))
    return TensorValue(context.fake, lambda p: zero)
