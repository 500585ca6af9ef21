"""Minima and maxima in loops over lanes are instructions of their own, also one after the other."""

from __future__ import annotations

import platform
import re
import subprocess

import pytest

from autosched.codegen.prelude import scalar_prelude
from autosched.runtime.compile.host_compiler import find_compiler, gnu_version, have_compiler, kernel_flags

pytestmark = [
    pytest.mark.skipif(not have_compiler("c"), reason="no compiler"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86-64's instructions"),
]


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_extremum_of_a_chain_is_an_instruction(name: str, count: int) -> None:
    compiler = find_compiler("c")
    if gnu_version(compiler) is None:
        pytest.skip("options of gcc")
    function = f"as_{name}_f32"
    parameters = "".join(f", const float* restrict a{k}" for k in range(count))
    value = "out[i]"
    for k in range(count):
        value = f"{function}(a{k}[i], {value})"
    source = f"""#define AS_FN static inline
{scalar_prelude({function})}
void lanes(float* restrict out{parameters}) {{
    #pragma omp simd
    for (int i = 0; i < 1024; i++) out[i] = {value};
}}
"""
    command = [*compiler.command, *kernel_flags(), "-x", "c", "-S", "-o", "-", "-"]
    assembly = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    assert len(re.findall(rf"\bv?{name}ps\b", assembly)) == count
