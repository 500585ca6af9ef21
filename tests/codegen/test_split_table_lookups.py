"""Tables of bytes: which loads are looked up in vectors, and the same results in all backends."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import Expr, Func, Input, Pipeline, Var, cast, clamp, select
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import host_prelude, print_c
from autosched.lang.dtypes import as_dtype
from autosched.lower.program import Program, lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.codegen.harness import compile_c
from tests.lower.run_backends import assert_backends_agree

CPU, GPU = get_target("cpu"), get_target("h200")
y, x, c = Var("y"), Var("x"), Var("c")

Case = Callable[[int, int], BoundPipeline]


def looked_up(
    value: Callable[[Input, Input], Expr], table: tuple[int, ...] = (256,), kind: str = "uint8", image: str = "uint8"
) -> Case:
    """Return a pipeline of a table and an image, by height and width."""

    def build(height: int, width: int) -> BoundPipeline:
        t, i, f = Input("table", as_dtype(kind), len(table)), Input("image", as_dtype(image), 2), Func("f")
        f[y, x] = value(t, i)
        return bind(Pipeline(f.over(y=(0, height), x=(0, width))), {"table": table, "image": (height, width)})

    return build


def at(i: Input) -> Expr:
    return cast("int32", i[y, x])


LOOKED_UP: dict[str, Case] = {
    "bytes": looked_up(lambda t, i: t[at(i)]),
    "signed bytes": looked_up(lambda t, i: t[at(i)], kind="int8"),
    "floats of bytes": looked_up(lambda t, i: cast("float32", t[at(i)]) * 0.5),
    "within a longer table": looked_up(lambda t, i: t[at(i) + 40], (300,)),
    "a table of the row": looked_up(lambda t, i: t[y % 2, at(i)], (2, 256)),
    "beside other loads": looked_up(lambda t, i: select(i[y, x] > 100, t[at(i)], i[y, x])),
    "of a computed position": looked_up(lambda t, i: t[cast("int32", i[y, x] ^ 255)]),
    "twice": looked_up(lambda t, i: t[at(i)] + t[cast("int32", i[y, x] // 2 + 128)]),
    "one after the other": looked_up(lambda t, i: t[cast("int32", t[at(i)])]),
}
NOT_LOOKED_UP: dict[str, Case] = {
    "a short table": looked_up(lambda t, i: t[clamp(at(i), 0, 99)], (100,)),
    "16-bit elements": looked_up(lambda t, i: t[at(i)], kind="uint16"),
    "signed positions": looked_up(lambda t, i: t[at(i) + 128], image="int8"),
    "16-bit positions": looked_up(lambda t, i: t[clamp(at(i), 0, 255)], image="uint16"),
    "a table of the column": looked_up(lambda t, i: t[x % 2, at(i)], (2, 256)),
}
SIZES = [(3, 1), (2, 63), (5, 64), (4, 65), (2, 129), (3, 200)]


def searched(bound: BoundPipeline) -> Program:
    """Return a pipeline lowered by a schedule that has whole rows of lanes."""
    shapes = {name: i.shape for name, i in bound.inputs.items()}
    return lower(bound, autosched.schedule(bound.pipeline, shapes, "cpu", strategy="beam").schedule)


@pytest.mark.parametrize("name", LOOKED_UP)
def test_whole_tables_are_looked_up(name: str) -> None:
    text = print_c(searched(LOOKED_UP[name](4, 200))).text
    assert text.count("as_lookup_u8(") > 2  # two of them define the function


@pytest.mark.parametrize("name", NOT_LOOKED_UP)
def test_other_loads_stay(name: str) -> None:
    assert "as_lookup_u8" not in print_c(searched(NOT_LOOKED_UP[name](4, 200))).text


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", LOOKED_UP | NOT_LOOKED_UP)
def test_backends_agree(name: str, size: tuple[int, int]) -> None:
    bound = (LOOKED_UP | NOT_LOOKED_UP)[name](*size)
    assert_backends_agree(bound, searched(bound), emulate=False)
    rng = np.random.default_rng(size[1])
    for target in (CPU, GPU):
        schedule = sample_schedule(bound, target, rng, varied=True)
        assert_backends_agree(bound, lower(bound, schedule), emulate=True)
        if target is GPU and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")


@pytest.mark.parametrize("before", ["", "#undef __AVX512VBMI__\n"])
def test_function(before: str, tmp_path: Path) -> None:
    """With the shuffles of this machine, if it has them, and without."""
    header = files("autosched.codegen.prelude").joinpath("table_lookup.h").read_text(encoding="utf-8")
    wrapper = """
void look_up(unsigned char* v, const unsigned char* t, const unsigned char* p) { as_lookup_u8(v, t, p); }
"""
    library = compile_c(before + host_prelude() + header + wrapper, tmp_path)
    rng = np.random.default_rng(0)
    table = rng.integers(0, 256, 257).astype(np.uint8)[1:]  # at any address
    for _ in range(20):
        positions, values = rng.integers(0, 256, 64).astype(np.uint8), np.empty(64, np.uint8)
        library.look_up(*(ctypes.c_void_p(a.ctypes.data) for a in (values, table, positions)))
        np.testing.assert_array_equal(values, table[positions])
