"""Every way to write a pipeline wrongly: message, the user's line and the hint, as in ``refused.txt``."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import Func, Input, RDom, Var, float32, uint8, uint64
from autosched.errors import DSLError, render
from autosched.lang.source_location import SourceLocation

GALLERY = (Path(__file__).parent / "refused.txt").read_text(encoding="utf-8").split("\n### ")[1:]
CASES = [tuple(block.partition("\n")[::2]) for block in GALLERY]


def names() -> dict[str, Any]:
    found = {name: getattr(autosched, name) for name in autosched.__all__}
    return found | {
        "np": np, "x": Var("x"), "y": Var("y"), "r": RDom("r", x=(0, 5)), "f": Func("f"), "g": Func("g"),
        "img": Input("img", float32, 2), "u8": Input("u8", uint8, 1), "u64": Input("u64", uint64, 1),
    }  # fmt: skip


@pytest.mark.parametrize("text", [text for _, text in CASES], ids=[title for title, _ in CASES])
def test_refused(text: str, tmp_path: Path) -> None:
    program, _, expected = text.partition("---\n")
    file = tmp_path / "program.py"
    file.write_text(program)
    linecache.clearcache()
    with pytest.raises(DSLError) as caught:
        exec(compile(program, str(file), "exec"), names())
    assert str(caught.value).replace(str(file), "program.py") == expected.rstrip("\n")


def test_gallery_was_read() -> None:
    assert len(CASES) > 80
    assert len({title for title, _ in CASES}) == len(CASES)


def test_parts_of_an_error_can_be_used_separately() -> None:
    with pytest.raises(DSLError) as caught:
        Func("my func")
    error = caught.value
    assert error.message == "Func name 'my func' is not an identifier"
    assert error.location is not None and error.location.file == __file__
    assert error.location.text == 'Func("my func")'
    assert str(error.location) == f"{__file__}:{error.location.line}"
    assert error.hint is None


def test_line_without_source() -> None:
    assert render("wrong", SourceLocation("/nowhere/at_all.py", 3), None) == "wrong\n  --> /nowhere/at_all.py:3"
    assert render("wrong", None, "do right") == "wrong\nHint: do right"


def test_code_without_a_file_has_no_location() -> None:
    with pytest.raises(DSLError) as caught:
        exec("Func('my func')", {"Func": _inside_string})
    assert caught.value.location is not None  # the nearest line that has a file
    assert caught.value.location.text == "return Func(name)"


def _inside_string(name: str) -> Func:
    return Func(name)
