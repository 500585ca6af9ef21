"""Operators, element types, samples and tolerances of PyTorch's test suite."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils import _pytree as pytree

from autosched.lang.dtypes import ALL

Tolerance = tuple[float, float]
"""Absolute and relative tolerance."""


@dataclass(frozen=True)
class Sample:
    """A call of an operator.

    Attributes:
        number: Its place among the samples of the operator and the element type.
        function: Takes the tensors and returns the operator's results.
        tensors: The tensors among the arguments; those that can be differentiated require grad.
        limits: Tolerance of floating-point numbers; None for the defaults of `torch.testing`.
        is_used: Whether the results are read by an operator that computes.
        title: Operator, element type and number.
    """

    number: int
    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    limits: Tolerance | None = None
    is_used: bool = False
    title: str = ""


@cache
def operators() -> dict[str, Any]:
    """Return PyTorch's OpInfos by the full name, with the variant; those of tensors without values are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db if "empty" not in op.name}  # their values are not defined


def element_types(op: Any) -> tuple[torch.dtype, ...]:
    """Return the types of samples that both the operator and the language have."""
    names = [d.name for d in ALL]
    supported = op.supported_dtypes("cpu")
    return tuple(d for name in names if (d := getattr(torch, name, None)) in supported)


def chosen_pairs(shard: str, names: str | None, types: str | None) -> list[tuple[str, torch.dtype]]:
    """Return the operators and element types of a run.

    Args:
        shard: ``K/N``, the K-th of N parts.
        names: Names of OpInfos, with or without their variant, separated by commas; all if None.
        types: Element types, separated by commas; all if None.
    """
    part, parts = map(int, shard.split("/"))
    wanted = names.split(",") if names else None
    named = [n for n in operators() if wanted is None or any(n == w or n.startswith(f"{w}.") for w in wanted)]
    of_types = types.split(",") if types else None
    pairs = [
        (name, dtype)
        for name in named
        for dtype in element_types(operators()[name])
        if of_types is None or str(dtype).removeprefix("torch.") in of_types
    ]
    return pairs[part - 1 :: parts]


def differentiable(op: Any, dtype: torch.dtype) -> bool:
    """Whether the operator has a gradient in the element type."""
    return bool(op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"))


def samples(op: Any, dtype: torch.dtype, most: int | None = None) -> Iterator[Sample]:
    """Yield samples, drawn from a fixed seed.

    Args:
        op: The OpInfo.
        dtype: Element type of the main operand.
        most: Most samples; they are spread over all of them.
    """
    seed_host(0)
    # PyTorch looks for a running `unittest.TestCase` in the stack, two thirds of a check of one sample.
    searches = [f"torch.testing._internal.{module}.extract_test_fn" for module in ("common_utils", "opinfo.core")]
    with patch(searches[0], return_value=None), patch(searches[1], return_value=None):
        drawn = op.sample_inputs("cpu", dtype, requires_grad=differentiable(op, dtype))
    with patch("torch.testing._internal.common_utils.set_rng_seed", seed_host):
        drawn = list(drawn if most != 1 else islice(drawn, 1))  # some operators have thousands
    limits = tolerance(op, dtype)
    step = 1 if most is None else max(1, len(drawn) // most)
    for number, sample in islice(list(enumerate(drawn))[::step], most):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        function = _call(op, leaves, spec, places, sample.output_process_fn_grad)
        yield Sample(
            number,
            function,
            tuple(_leaf(leaves[k]) for k in places),
            limits,
            title=f"{op.full_name} {dtype} sample {number}",
        )


def seed_host(seed: int = 1234) -> None:
    """Set the seeds of random numbers in host memory, by default to that of PyTorch's tests.

    `torch.manual_seed` takes milliseconds more, since it formats and keeps a stack for each kind of missing GPU.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _call(
    op: Any, leaves: Sequence[Any], spec: Any, places: Sequence[int], process: Callable[[Any], Any]
) -> Callable[..., Any]:
    def call(*tensors: torch.Tensor) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(given, spec)
        return process(op(first, *args, **kwargs))

    return call


def belongs_to_tenth(op: Any, dtype: torch.dtype, number: int, count: int) -> bool:
    """Whether a sample belongs to the tenth for every backend: at least one of each operator and element type.

    Args:
        op: The OpInfo.
        dtype: Element type.
        number: The sample's place among those that are checked.
        count: How many are checked.
    """
    chosen = zlib.crc32(f"{op.full_name} {dtype}".encode()) % min(10, count)
    return number % 10 == chosen


def tolerance(op: Any, dtype: torch.dtype) -> Tolerance | None:
    """Return the widest tolerance that the OpInfo overrides for a type; None for the defaults of `torch.testing`."""
    from torch.testing._internal.common_device_type import toleranceOverride

    widest: Tolerance | None = None
    for decorate in op.decorators:
        for decorator in getattr(decorate, "decorators", [decorate]):
            override = decorator.d.get(dtype) if isinstance(decorator, toleranceOverride) else None
            if override is not None:
                low = widest or (0.0, 0.0)
                widest = max(low[0], float(override.atol)), max(low[1], float(override.rtol))
    return widest
