"""Reductions of merged dimensions run over the dimensions before the reshape, and long ones by runs in range."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from autosched.lang.expr import Binary, postorder
from autosched.torch.decompositions import decompositions
from autosched.torch.lowerings.reductions import LANES, RUN, _run_shape
from autosched.torch.lowerings.views import merged_dims
from autosched.torch.translation import translate
from tests.torch_backend.differential import compare, random

REDUCED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum of a row": lambda a: a.abs().reshape(2, 3, -1).sum(-1),
    "mean of a picture": lambda a: (a * 2).reshape(2, -1).mean(1, keepdim=True),
    "largest of all": lambda a: (a * 2).reshape(-1).amax(),
    "reshaped twice": lambda a: (a + 1).reshape(2, 15, 7).reshape(2, 105).sum(1),
    "sum that keeps a merged dimension": lambda a: (a + 1).reshape(6, 35).sum(1),
}


def divides(function: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> bool:
    """Return whether a translation has quotients or remainders."""
    a = torch.rand(shape)
    pipeline = translate(make_fx(function, decompositions())(a), (a,)).pipeline
    assert pipeline is not None
    seen: set[int] = set()
    for func in pipeline.funcs:
        for definition in func.definitions:
            for e in postorder([*definition.values], seen):
                seen.add(id(e))
                if isinstance(e, Binary) and e.op in ("floordiv", "mod"):
                    return True
    return False


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_of_reshapes(name: str) -> None:
    compare(REDUCED[name], random(2, 3, 5, 7))
    compare(REDUCED[name], random(2, 3, 5, 7, gradient=False), witness="interpreter")
    assert divides(REDUCED[name], 2, 3, 5, 7) == (name == "sum that keeps a merged dimension")


def test_values_of_several_readers_are_not_computed_again() -> None:
    def function(a: torch.Tensor) -> torch.Tensor:
        rows = a.exp().reshape(6, 35)
        return rows.sum(1, keepdim=True) * rows

    compare(function, random(2, 3, 5, 7))


@pytest.mark.parametrize("columns", [1031, 1200])
def test_long_sums_by_runs_stay_in_range(columns: int) -> None:
    compare(lambda a: (a[:, 1:] - a[:, :-1]).reshape(-1).abs().sum(), random(2, columns + 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "groups"),
    [
        ((2, 3, 4), (2, 12), ((0,), (1, 2))), ((2, 3, 4), (24,), ((0, 1, 2),)), ((2, 3, 4), (6, 4), ((0, 1), (2,))),
        ((2, 3, 4), (3, 8), None), ((2, 12), (2, 3, 4), None), ((2, 3), (2, 3), None), ((), (1,), None),
    ],
)  # fmt: skip
def test_merged_dims(old: tuple[int, ...], new: tuple[int, ...], groups: object) -> None:
    assert merged_dims(old, new) == groups


@pytest.mark.parametrize("n", [1025, 1031, 1920, 2062, 4096, 65536, 1 << 20, 2073600])
def test_runs_cover_all_terms(n: int) -> None:
    chunks, run, lanes = _run_shape(n)
    assert 0 <= chunks * run * lanes - n < run * lanes
    assert lanes in LANES and max(chunks, run) <= RUN
    if n % 16 == 0:
        assert chunks * run * lanes == n


def test_sums_of_pictures_read_neighbouring_elements() -> None:
    a = torch.rand(2, 40, 1920)
    pipeline = translate(make_fx(lambda a: a.abs().sum((1, 2)), decompositions())(a), (a,)).pipeline
    assert pipeline is not None
    (runs,) = [f for f in pipeline.funcs if f.name.endswith("_runs")]
    assert len(runs.dims) == 3  # picture, row, lane
    compare(lambda a: a.abs().sum((1, 2)), a, rtol=1e-5, atol=1e-3)
