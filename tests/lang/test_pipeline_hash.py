"""The hash of a pipeline: names do not count, everything structural does, and every process finds the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

import autosched as a
from autosched import Func, Input, Param, Pipeline, RDom, Var, float32, float64, int16, int32, uint8


@dataclass(frozen=True)
class Recipe:
    """A pipeline with something of everything, and the places where it can be changed."""

    names: str = "plain"
    dtype: Any = float32
    ndim: int = 2
    boundary: str = "mirrored"
    param: Any = int32
    constant: float = 0.5
    offset: int = 1
    operator: Callable[[Any, Any], Any] = a.min
    function: Callable[[Any], Any] = a.sin
    low: Any = 0
    high: Any = 3
    box: tuple[Any, Any] | None = (0, 9)
    component: int = 0
    cast: Any = int16
    axis: int = 0
    transposed: bool = False
    updates: int = 1
    outputs: tuple[int, ...] = (0,)
    swapped_arms: bool = False

    def build(self) -> Pipeline:
        def named(short: str) -> str:
            return short if self.names == "plain" else f"{self.names}_{short}"

        y, x = Var(named("y")), Var(named("x"))
        img = Input(named("img"), self.dtype, self.ndim, dims=[named(f"d{k}") for k in range(self.ndim)])
        gain, r = Param(named("gain"), self.param), RDom(named("r"), k=(self.low, self.high))
        source = img.constant(0) if self.boundary == "constant" else getattr(img, self.boundary)()
        rest = (0,) * (self.ndim - 2)
        pair = Func(named("pair"))
        pair[y, x] = (source[(*rest, y, x + self.offset)], a.cast(float32, x))
        f = Func(named("f"))
        f[y, x] = self.constant
        for _ in range(self.updates):
            at = (x, y) if self.transposed else (y, x)
            f[y, x] = f[y, x] + self.operator(pair[at][self.component], r.k) * a.cast(self.cast, y)
        g = Func(named("g"))
        arms = (f[y, x], self.function(f[y, x - 1]))
        g[y, x] = a.select(x < img.shape[self.axis], *(reversed(arms) if self.swapped_arms else arms)) * gain
        boxes = {named("y"): (0, 9), named("x"): self.box}
        outputs = [g if self.box is None else g.over(**boxes), f.over(**boxes) if self.box else f]
        return Pipeline([outputs[k] for k in self.outputs], name=named("p"))


PLAIN = Recipe()
CHANGES: dict[str, list[Any]] = {
    "dtype": [float64, uint8], "ndim": [3, 4], "boundary": ["clamped", "wrapped", "mirrored_without_edge", "constant"],
    "param": [int16, float32], "constant": [0.25, -0.5, 1.0], "offset": [0, -1, 2], "operator": [a.max, a.hypot],
    "function": [a.cos, abs, lambda e: -e], "low": [1, -1], "high": [4, 2], "box": [(0, 8), (1, 9), None],
    "component": [1], "cast": [int32, uint8], "axis": [1], "transposed": [True], "updates": [0, 2],
    "outputs": [(0, 1), (1, 0), (1,)], "swapped_arms": [True],
}  # fmt: skip
VARIANTS = [replace(PLAIN, **{field: value}) for field, values in CHANGES.items() for value in values]


def test_names_do_not_count() -> None:
    assert PLAIN.build().hash == PLAIN.build().hash == replace(PLAIN, names="other").build().hash


def test_everything_structural_counts() -> None:
    assert set(CHANGES) == set(Recipe.__dataclass_fields__) - {"names"}
    found: dict[str, Recipe] = {PLAIN.build().hash: PLAIN}
    for variant in VARIANTS:
        key = variant.build().hash
        assert key not in found, f"{variant} looks like {found[key]}"
        found[key] = variant


def test_form() -> None:
    key = PLAIN.build().hash
    assert len(key) == 64 and set(key) <= set("0123456789abcdef")


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_other_processes_find_the_same(seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [v.build().hash for v in (PLAIN, *VARIANTS)]


x = Var("x")


def one(value: Any) -> str:
    f = Func("f")
    f[x] = value
    return Pipeline(f.over(x=(0, 9))).hash


def test_constants_differ_by_type_and_bits() -> None:
    values = [1, 1.0, True, a.cast(uint8, 1), 0.0, -0.0, float("nan"), float("inf"), 0]
    assert len({one(v) for v in values}) == len(values)


def test_structure_counts_and_not_how_it_is_shared() -> None:
    img = Input("img", float32, 1)
    shared = img[x] + 1
    assert one(shared * shared) == one((img[x] + 1) * (img[x] + 1))
    assert one(img[x] + 1) != one(1 + img[x])


def test_two_inputs_differ() -> None:
    p, q = Input("p", float32, 1), Input("q", float32, 1)
    assert one(p[x] - q[x]) == one(q[x] - p[x]), "the same but for names"
    assert one(p[x] - q[x + 1]) != one(p[x] - p[x + 1])


def test_reduction_loops_differ() -> None:
    def scan(high: int, order: bool) -> str:
        img, r = Input("img", float32, 2), RDom("r", p=3, q=high)
        f = Func("f")
        f[x] = 0.0
        f[x] = f[x] * 2 + (img[r.p, r.q] if order else img[r.q, r.p])
        return Pipeline(f.over(x=(0, 9))).hash

    assert len({scan(3, True), scan(3, False), scan(4, True), scan(4, False)}) == 4


def test_undefined_definitions_and_targets_of_updates_count() -> None:
    def build(start: Any, at: Any) -> str:
        f = Func("f")
        f[x] = start
        f[at] = 1
        return Pipeline(f.over(x=(0, 9))).hash

    r = RDom("r", k=9)
    hashes = [build(s, at) for s in (0, 0.0, a.undef(int32), a.undef(float32)) for at in (x, 0, 1, r.k, r.k // 2)]
    assert len(set(hashes)) == len(hashes)


if __name__ == "__main__":  # the hashes of another process
    sys.stdout.write("\n".join(v.build().hash for v in (PLAIN, *VARIANTS)))
