"""Updates at constant indices as gathers, and index vectors as expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as f

from autosched.lang.expr import Var
from autosched.lang.func import Func
from autosched.torch.lowerings.affine_fit import affine_fit, lower_line
from tests.torch_backend.differential import compare, random

X = np.arange(24)


@pytest.mark.parametrize(
    "values",
    [X // 2, X * 3 + 1, np.clip((X - 1) // 2, 0, 9), np.clip((X + 1) // 2, 0, 10), X[::-1] * 2, X * 0 + 4, X[:1] + 3,
     np.floor(X / 1.5), np.floor(np.arange(60) / 1.7), np.floor((X + 0.5) * 1.5 - 0.5), np.array([1, 4])],
)  # fmt: skip
def test_vectors_of_resampling_are_expressions(values: Any) -> None:
    fit = affine_fit(values.astype(np.int64))
    assert fit is not None
    made = (np.arange(len(values)) * fit.factor + fit.offset) // fit.divisor
    made = made if fit.low is None else np.clip(made, fit.low, fit.high)
    np.testing.assert_array_equal(made, values)


def test_other_vectors_are_none() -> None:
    assert affine_fit(np.array([2, 0, 1])) is None
    assert affine_fit(np.array([0, 1, 4, 9, 16])) is None


def test_a_line_lies_below_all_starts() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        sizes = generator.integers(0, 4, 12)
        starts = np.cumsum(sizes) - sizes
        if not sizes.any():
            continue
        line, most = lower_line(starts, sizes)
        begins = (np.arange(12) * line.factor + line.offset) // line.divisor
        assert (begins <= starts)[sizes > 0].all()
        assert (begins + most >= starts + sizes)[sizes > 0].all()


Form = tuple[Callable[..., torch.Tensor], tuple[int, ...]]

FORMS: dict[str, Form] = {
    "doubled": (lambda a: f.interpolate(a, scale_factor=2.0), (1, 2, 4, 6)),
    "halved": (lambda a: f.interpolate(a, scale_factor=0.5), (1, 2, 6, 8)),
    "by seven tenths": (lambda a: f.interpolate(a, scale_factor=0.7), (1, 2, 10, 8)),
    "doubled linearly": (lambda a: f.interpolate(a, scale_factor=2.0, mode="bilinear"), (1, 1, 5, 6)),
    "windows": (lambda a: f.unfold(a, 3, padding=1), (1, 2, 5, 6)),
    "rows that are set": (lambda a: a.index_copy(0, torch.arange(2) * 2 + 1, a[:2] * 3), (6, 3)),
    "repeated": (lambda a: a[:, (torch.arange(9) * 0.34).long()] * 2, (2, 3)),
}  # fmt: skip
STRIDED: dict[str, Form] = {
    "windows with strides": (lambda a: f.unfold(a, 2, stride=2, padding=1), (1, 2, 8, 10)),
    "sums of windows": (lambda a: f.fold(a, (9, 8), 3, stride=2, padding=1), (1, 18, 20)),
}


@pytest.mark.parametrize("name", FORMS)
def test_gradients_are_gathers(name: str) -> None:
    function, shape = FORMS[name]
    record = compare(function, random(*shape), witness="interpreter", rtol=1e-4, atol=1e-5)
    assert not scatters(record)


@pytest.mark.parametrize("witness", ["cpu", "emulator"])
@pytest.mark.parametrize("name", ["by seven tenths", "doubled linearly", "windows", *STRIDED])
def test_compiled_gathers_give_eager_results(name: str, witness: Any) -> None:
    function, shape = {**FORMS, **STRIDED}[name]
    compare(function, random(*shape), witness=witness, rtol=1e-4, atol=1e-5)


def scatters(record: Any) -> list[Func]:
    """Return the Funcs with an update at a computed place."""
    codes = [code for _, regions in record for region in regions for code in region.versions.values()]
    funcs = [func for code in codes for func in code.translation.pipeline.funcs]
    return [
        func
        for func in funcs
        if any(not isinstance(i, Var) for d in func.definitions[1:] for i in d.indices)
    ]  # fmt: skip
