"""Kernels that are equal up to names share one function, in C, in CUDA, in exports and in the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, ScheduledPipeline, Var, float32, float64
from autosched.apps import get_app
from autosched.codegen.c import print_c
from autosched.codegen.identical_kernels import distinct_kernels, share_cuda_kernels
from autosched.runtime.backends.cuda import CudaExecutable
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.search.tune import spill_filter
from tests.export.building import assert_same_bits, c_example, emulated_example, expected, results

SHAPES = {"in": (12, 16, 32)}
"""Rows of 256 bytes, which are laid out alike in the caller's arrays and in intermediate ones."""
x, y = Var("x"), Var("y")


def smoother(target: str, sweeps: int = 6, shapes: Any = SHAPES) -> ScheduledPipeline:
    return autosched.schedule(get_app("smoother7pt").build(T=sweeps), shapes, target, strategy="roots")


def grid(shapes: Any = SHAPES) -> dict[str, np.ndarray[Any, Any]]:
    return {"in": np.random.default_rng(0).random(shapes["in"])}


@pytest.mark.parametrize("sweeps", [2, 6, 48])
def test_sweeps_are_one_function(sweeps: int) -> None:
    text = print_c(smoother("cpu", sweeps).program).text
    assert text.count("static __attribute__((noinline))") <= 2, "caller's arrays may be unaligned"
    assert text.count("(block, a[") == sweeps
    kernels = share_cuda_kernels(smoother("h200", sweeps).program.kernels)
    assert len(kernels) == sweeps
    assert len(distinct_kernels(kernels)) == 1
    names = [tuple(p.name for p in k.params[:2]) for k in kernels]
    assert len(set(names)) == sweeps, "each has its own arrays"


def test_padded_rows_are_other_functions() -> None:
    shapes = {"in": (5, 6, 30)}
    kernels = share_cuda_kernels(smoother("h200", 5, shapes).program.kernels)
    assert len(distinct_kernels(kernels)) == 3, "from the caller's rows, between padded rows, to the caller's rows"


@pytest.mark.parametrize(("target", "backend"), [("cpu", "cpu"), ("h200", "emulator")])
@pytest.mark.parametrize("shapes", [SHAPES, {"in": (5, 6, 30)}])
def test_bits(target: str, backend: str, shapes: Any) -> None:
    scheduled = smoother(target, 5, shapes)
    given = grid(shapes)
    reference = autosched.interpret(get_app("smoother7pt").build(T=5), given)["output"]
    np.testing.assert_array_equal(scheduled.compile(backend)(given), reference)


def test_exports(tmp_path: Path) -> None:
    scheduled = smoother("cpu", 4)
    (tmp_path / "c").mkdir()
    example = c_example(scheduled.export(tmp_path / "exported"), tmp_path / "c")
    assert_same_bits(results(example, scheduled, grid()), expected(scheduled, grid()))
    scheduled = smoother("h200", 4)
    (tmp_path / "cuda").mkdir()
    exported = scheduled.export(tmp_path / "exported_cuda")
    source = (tmp_path / "exported_cuda" / "smoother7pt.cu").read_text()
    assert (source.count("\nKERNEL("), source.count("AS_LAUNCH(smoother7pt_")) == (1, 4)
    assert_same_bits(
        results(emulated_example(exported, tmp_path / "cuda"), scheduled, grid()), expected(scheduled, grid())
    )


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_nvrtc_compiles_one_of_them() -> None:
    scheduled = smoother("h200", 48)
    executable = CudaExecutable(scheduled.program, scheduled.signature, "sm_90")
    assert len(executable.cubins) == 1
    assert [step.function for step in executable.launches.steps] == list(executable.cubins) * 48
    arguments = {step.arguments for step in executable.launches.steps}
    assert len(arguments) == 4, "from the input, between two arrays in turn, to the output"
    assert len(executable.resources) == 48


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_the_search_compiles_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = spill_filter.compile_many

    def spied(sources: list[str], *arguments: Any, names: list[str], **options: Any) -> Any:
        compiled.extend(names)
        return original(sources, *arguments, names=names, **options)

    monkeypatch.setattr(spill_filter, "compile_many", spied)
    scheduled = smoother("h200", 48)
    spills = spill_filter.SpillTable(scheduled.bound, scheduled.target).of(scheduled.schedule)
    assert (len(spills), len(compiled)) == (48, 1)


def _pair(first: Any, second: Any, dtype: Any = float32) -> list[str]:
    """Return the function of each of two kernels."""
    a, b, f, g = Input("a", dtype, 2), Input("b", dtype, 2), Func("f"), Func("g")
    f[y, x] = first(a)
    g[y, x] = second(b)
    pipeline = Pipeline([f.over(y=(0, 8), x=(0, 64)), g.over(y=(0, 8), x=(0, 64))], name="pair")
    program = autosched.schedule(pipeline, {"a": (8, 64), "b": (8, 64)}, "h200", strategy="roots").program
    return [k.name for k in share_cuda_kernels(program.kernels)]


def test_other_operations_constants_and_types_are_other_functions() -> None:
    def twice(s: Any) -> Any:
        return s[y, x] * 2

    assert len(set(_pair(twice, twice))) == 1
    assert len(set(_pair(twice, lambda s: s[y, x] * 3))) == 2
    assert len(set(_pair(twice, lambda s: s[y, x] + 2))) == 2
    assert len(set(_pair(twice, lambda s: autosched.cast(float64, s[y, x]) * 2))) == 2
    assert len(set(_pair(lambda s: autosched.abs(s[y, x]), lambda s: autosched.sqrt(s[y, x])))) == 2
