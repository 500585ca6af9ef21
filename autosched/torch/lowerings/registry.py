"""Translations of ATen operators, by operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from autosched.torch.tensors import TensorValue

Result = TensorValue | tuple[TensorValue | None, ...]
F = TypeVar("F", bound=Callable[..., Result])


@dataclass(frozen=True)
class LoweringContext:
    """What a lowering has beside the operator's arguments.

    Attributes:
        name: A name for Funcs, unique in the graph.
        fake: The result without data: a tensor or a tuple of them.
        add_check: Adds a condition that no call may violate, as a bool tensor that must be false everywhere, with the
            class of the error and its text.
    """

    name: str
    fake: Any
    add_check: Callable[[TensorValue, type[Exception], str], None]


Lowering = Callable[..., Result]
Support = Callable[..., str | None]


@dataclass(frozen=True)
class Entry:
    """A registered lowering.

    Attributes:
        lower: Takes the context and the operator's arguments, tensors as `TensorValue`.
        unsupported: Takes the operator's arguments, tensors as fake ones; returns why this form is not translated, or
            None.
    """

    lower: Lowering
    unsupported: Support | None = None


LOWERINGS: dict[torch._ops.OpOverload, Entry] = {}
"""The lowering of each operator's overload."""


def register(*operators: Any, unsupported: Support | None = None) -> Callable[[F], F]:
    """Register a lowering for overloads of operators.

    Args:
        *operators: Overloads, such as ``aten.sum.dim_IntList``.
        unsupported: As in `Entry`.
    """

    def decorate(lower: F) -> F:
        for operator in operators:
            LOWERINGS[operator] = Entry(lower, unsupported)
        return lower

    return decorate
