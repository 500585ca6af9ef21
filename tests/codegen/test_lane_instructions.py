"""Loops over lanes that gcc vectorises only in the form in which they are printed."""

from __future__ import annotations

import platform
import re
import subprocess

import pytest

import autosched
from autosched import Expr, Func, Input, Var, bool_, cast, float32, float64
from autosched.lang.dtypes import DType
from autosched.runtime.compile.host_compiler import find_compiler, gnu_version, have_compiler, kernel_flags

pytestmark = [
    pytest.mark.skipif(not have_compiler("c"), reason="no compiler"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86-64's instructions"),
]


def assembly(value: Expr, inputs: dict[str, tuple[int, ...]]) -> str:
    """Return the instructions of a baseline schedule of one Func of 512 lanes."""
    compiler = find_compiler("c")
    if gnu_version(compiler) is None:
        pytest.skip("forms for gcc")
    x = Var("x")
    out = Func("out")
    out[x] = value
    pipeline = autosched.Pipeline([out.over(x=(0, 512))], name="lanes")
    source = autosched.schedule(pipeline, inputs, "cpu", strategy="roots").source("cpu")
    command = [*compiler.command, *kernel_flags(), "-x", "c", "-S", "-o", "-", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    return text.partition("lanes_out:")[2].partition(".cfi_endproc")[0]


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_booleans_become_numbers_in_vectors(dtype: DType) -> None:
    x = Var("x")
    a, flags = Input("a", dtype, 1), Input("flags", bool_, 1)
    text = assembly(a[x] * cast(dtype, flags[x]) + cast(dtype, a[x] > 0.5), {"a": (512,), "flags": (512,)})
    kind = "s" if dtype == float32 else "d"
    assert re.search(rf"\bvmulp{kind}\b.*[yz]mm", text) and not re.search(rf"\bvmuls{kind}\b", text)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_remainders_are_computed_in_vectors(dtype: DType) -> None:
    x = Var("x")
    a, b = Input("a", dtype, 1), Input("b", dtype, 1)
    text = assembly(a[x] % b[x] + a[x] // b[x], {"a": (512,), "b": (512,)})
    name = "fmodf" if dtype == float32 else "fmod"
    assert re.search(rf"call\s+_ZGV[a-e]N\d+vv_{name}\b", text) and not re.search(rf"call\s+{name}\b", text)
