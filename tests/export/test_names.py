"""Names of exported functions, and macros that must not clash with generated code."""

from __future__ import annotations

import pytest

from autosched.errors import InputError
from autosched.export.names import ArgumentNames, function_name, undefine


@pytest.mark.parametrize(
    ("pipeline", "name"),
    [
        ("blur", "blur"),
        ("été", "ue9tue9"),
        ("class", "class_pipeline"),
        ("free", "free_pipeline"),
        ("math", "math_pipeline"),
        ("cudaMalloc", "cudaMalloc_pipeline"),
        ("curve", "curve"),
        ("_hidden", "u_hidden"),
        ("as_run", "uas_run"),
        ("example", "example_pipeline"),
        ("test", "test_pipeline"),
    ],
)
def test_names_of_pipelines(pipeline: str, name: str) -> None:
    assert function_name(pipeline) == name
    assert function_name(pipeline, "mine") == "mine"


@pytest.mark.parametrize(
    "given", ["", "2d", "a-b", "a b", "../a", "a;b", "é", "_a", "a" * 101, "while", "read", "stdio", "cuInit"]
)
def test_refused_names(given: str) -> None:
    with pytest.raises(InputError, match="cannot be named"):
        function_name("blur", given)


def test_arguments_are_called_like_nothing_else() -> None:
    names = ArgumentNames(["blur"])
    given = ["image", "image", "blur", "workspace", "stream", "int", "M_PI", "RGB", "rgb", "X", "as_error", "dim3"]
    assert [names(name) for name in given] == [
        "image", "image1", "blur1", "workspace1", "stream1", "int1", "m_pi", "rgb", "rgb1", "X", "uas_error", "dim3_1",
    ]  # fmt: skip


def test_possible_macros_are_undefined() -> None:
    prelude = "#define LOAD(b, i) (b)[i]\n# define AS_INF 1\n"
    body = 'LOAD(EOF, 0) + M_PI + stdin + AS_INF + x + N; // NOTE\n_Pragma("GCC unroll")'
    assert undefine(body, prelude).splitlines()[1:-1] == ["#undef EOF", "#undef M_PI", "#undef stdin"]
    assert undefine("LOAD(a, 0)", prelude) == ""
