"""Names of macros are not those of generated code; all other names are the user's."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Param, Pipeline, RDom, Var, float32, int32
from autosched.analysis.identifiers import Namer
from autosched.analysis.macro_names import is_macro
from autosched.runtime.compile.host_compiler import find_compiler, have_compiler
from autosched.runtime.compile.nvrtc import have_nvrtc

HEADERS = {
    "c": "features math omp setjmp stdbool stddef stdint stdio stdlib string sys/mman ucontext unistd",
    "c++": "math setjmp stddef stdint stdlib string sys/mman ucontext unistd",
}
"""Headers of the translation unit of generated code."""
STANDARD = "algorithm atomic map memory mutex new system_error thread utility vector"
ORDINARY = (
    "x",
    "blur",
    "RGB",
    "EDGE",
    "M",
    "M_b",
    "M_0",
    "F_0",
    "F_x_b",
    "X_t",
    "MAP",
    "INT",
    "A",
    "L_b",
    "sa_b",
    "r_i",
)
KEYWORDS = {"bool", "false", "true", "linux", "unix"}
"""They are reserved as words."""


@pytest.mark.skipif(not (have_compiler("c") and have_compiler("c++")), reason="no compilers")
@pytest.mark.parametrize("language", HEADERS)
def test_every_macro_of_the_headers_is_listed(language: str) -> None:
    lines = [f"#include <{name}.h>" for name in HEADERS[language].split()]
    lines += [f"#include <{name}>" for name in STANDARD.split()] if language == "c++" else []
    found = subprocess.run(
        [*find_compiler("c" if language == "c" else "c++").command, "-x", language, "-fopenmp", "-dM", "-E", "-"],
        input="\n".join(lines) + "\n", capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    macros = set(re.findall(r"^#define (\w+)", found, re.MULTILINE))
    assert len(macros) > 300
    assert {m for m in macros if not m.startswith("_") and not is_macro(m)} <= KEYWORDS


def test_names_that_are_no_macros_stay() -> None:
    for name in ORDINARY:
        assert Namer()(name) == name
    assert Namer()("NULL") == "uNULL"
    assert Namer()("M_PI") == "uM_PI"
    assert Namer()("INT", "MAX") == "uINT_MAX"


def macros() -> Pipeline:
    """Nothing but names of macros, of which some come about with the name of the pipeline or a suffix."""
    pi, stdin = Var("PI"), Var("stdin")
    array, scale = Input("EOF", float32, 1), Param("NAN", int32, 3)
    null, infinity, total = Func("NULL"), Func("INFINITY"), Func("PI")
    r = RDom("INT", MAX=4)
    null[pi] = array.clamped()[pi - 1] * scale
    infinity[stdin] = null[stdin] + 1 + null[stdin + 1]
    total[pi] = 0.0
    total[pi] += infinity[pi] * infinity[r.MAX]
    return Pipeline([null.over(PI=(0, 65)), infinity.over(stdin=(0, 64)), total.over(PI=(0, 64))], name="M")


@pytest.mark.parametrize("strategy", ["roots", "beam"])
def test_they_compile_everywhere(strategy: str) -> None:
    array = np.arange(64, dtype=np.float32)
    wanted = autosched.interpret(macros(), {"EOF": array})
    for target, backend in (("cpu", "cpu"), ("h200", "emulator")):
        found = autosched.schedule(macros(), {"EOF": (64,)}, target, strategy=strategy, reuse=False)
        outputs = found.compile(backend)({"EOF": array})
        assert all(np.array_equal(o, wanted[n]) for n, o in zip(macros().output_names, outputs, strict=True))
        if target == "h200" and have_nvrtc():
            assert found.compile("cuda").resources
