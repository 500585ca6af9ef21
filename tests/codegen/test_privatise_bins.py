"""Private copies of histogram bins: which loops get them, and the same results in all backends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, Var, cast, clamp, select
from autosched import max as larger
from autosched import min as smaller
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.lang.dtypes import as_dtype
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

CPU, GPU = get_target("cpu"), get_target("h200")
i, c = Var("i"), Var("c")

Update = Callable[[Expr, Expr], Expr]


def histogram(
    update: Update = lambda old, new: old + 1,
    *,
    bins: str = "int32",
    image: str = "uint8",
    shape: tuple[int, int] = (70, 83),
    place: Callable[[Expr], Expr] = lambda e: cast("int32", e),
    count: int = 256,
    start: int = 0,
) -> BoundPipeline:
    a, h = Input("a", as_dtype(image), 2), Func("h")
    r = RDom("r", y=shape[0], x=shape[1])
    value = a[r.y, r.x]
    h[i] = cast(bins, start)
    at = place(value)
    h[at] = cast(bins, update(h[at], value))
    return bind(Pipeline(h.over(i=(0, count))), {"a": shape})


def joint() -> BoundPipeline:
    """Return a histogram of two values, in bins of two dimensions."""
    a, b, h, j = Input("a", as_dtype("uint8"), 2), Input("b", as_dtype("uint8"), 2), Func("h"), Var("j")
    r = RDom("r", y=61, x=90)
    h[i, j] = 0
    h[cast("int32", a[r.y, r.x] // 16), cast("int32", b[r.y, r.x] // 16)] += 1
    return bind(Pipeline(h.over(i=(0, 16), j=(0, 16))), {"a": (61, 90), "b": (61, 90)})


def channels() -> BoundPipeline:
    """Return a histogram of each channel."""
    a, h = Input("a", as_dtype("uint8"), 3), Func("h")
    r = RDom("r", y=64, x=67)
    h[c, i] = 0
    h[c, cast("int32", a[r.y, r.x, c])] += 1
    return bind(Pipeline(h.over(c=(0, 3), i=(0, 256))), {"a": (64, 67, 3)})


def weighted() -> BoundPipeline:
    a, w, h = Input("a", as_dtype("uint8"), 2), Input("w", as_dtype("int32"), 2), Func("h")
    r = RDom("r", y=60, x=79)
    h[i] = 7
    h[cast("int32", a[r.y, r.x])] += w[r.y, r.x]
    return bind(Pipeline(h.over(i=(0, 256))), {"a": (60, 79), "w": (60, 79)})


WITH_COPIES: dict[str, Callable[[], BoundPipeline]] = {
    "counts": histogram,
    "rows of whole groups": lambda: histogram(shape=(64, 80)),
    "bins of bytes, which wrap": lambda: histogram(bins="uint8", start=250),
    "signed bins that wrap": lambda: histogram(lambda old, new: old + 9999, bins="int16"),
    "64-bit bins": lambda: histogram(bins="uint64", shape=(100, 130)),
    "maxima": lambda: histogram(lambda old, new: larger(old, cast("int32", new) - 99), start=-(2**31)),
    "minima": lambda: histogram(lambda old, new: smaller(old, cast("int32", new) * 3), start=300),
    "bits": lambda: histogram(lambda old, new: old | cast("int32", new), place=lambda e: cast("int32", e // 2)),
    "differing bits": lambda: histogram(
        lambda old, new: old ^ cast("int32", new), place=lambda e: cast("int32", e // 3)
    ),
    "clamped values": lambda: histogram(place=lambda e: clamp(cast("int32", e), 20, 90)),
    "floats": lambda: histogram(image="float32", place=lambda e: clamp(cast("int32", e), 0, 255)),
    "joint": joint,
    "weighted": weighted,
}
WITHOUT_COPIES: dict[str, Callable[[], BoundPipeline]] = {
    "floating-point bins": lambda: histogram(bins="float32"),
    "few terms": lambda: histogram(shape=(5, 83)),
    "short rows": lambda: histogram(shape=(2000, 3)),
    "many bins": lambda: histogram(image="uint16", count=65_536),
    "no accumulation": lambda: histogram(lambda old, new: old * 3 + 1),
    "a term that depends on the bin": lambda: histogram(lambda old, new: old + select(old > 5, 1, 2)),
    "bins of lanes": channels,
    "the last value": lambda: histogram(lambda old, new: cast("int32", new)),
}


def text_of(bound: BoundPipeline) -> str:
    return print_c(lower(bound, schedule_roots(bound, CPU))).text


@pytest.mark.parametrize("name", WITH_COPIES)
def test_bins_with_copies(name: str) -> None:
    assert "h_bins" in text_of(WITH_COPIES[name]())


@pytest.mark.parametrize("name", WITHOUT_COPIES)
def test_bins_without_copies(name: str) -> None:
    assert "h_bins" not in text_of(WITHOUT_COPIES[name]())


@pytest.mark.parametrize("name", WITH_COPIES | WITHOUT_COPIES)
def test_backends_agree(name: str) -> None:
    bound = (WITH_COPIES | WITHOUT_COPIES)[name]()
    assert_backends_agree(bound, lower(bound, schedule_roots(bound, CPU)), emulate=False)
    if name in WITH_COPIES:
        schedule = sample_schedule(bound, GPU, np.random.default_rng(1), varied=True)
        assert_backends_agree(bound, lower(bound, schedule), emulate=True)
        if have_nvrtc():
            ScheduledPipeline(bound, schedule, GPU).compile("cuda")


@pytest.mark.parametrize("seed", range(6))
def test_random_schedules_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for build in (channels, joint):
        bound = build()
        assert_backends_agree(bound, lower(bound, sample_schedule(bound, CPU, rng, varied=True)), emulate=False)
