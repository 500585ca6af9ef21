"""The files of an export, made from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import autosched
from autosched import InputError
from autosched.apps import get_app
from autosched.cli import main
from tests.export.pipelines import ODD_SHAPES, odd

SIZES = ("--size", "H=53", "--size", "W=77")
ROOTS = ("--strategy", "roots")


@pytest.mark.parametrize(
    ("target", "sources"), [("h200", {"blur.cu", "example.cpp"}), ("cpu", {"blur.c", "example.c"})]
)
def test_files(target: str, sources: set[str], tmp_path: Path) -> None:
    app = get_app("blur")
    scheduled = autosched.schedule(app.build(), app.shapes(app.small_sizes), target, strategy="roots")
    exported = scheduled.export(tmp_path / "out")
    names = {"blur.h", "CMakeLists.txt", "README.md", "schedule.json", *sources}
    assert {file.name for file in exported.files} == names
    assert exported.workspace_bytes == scheduled.program.workspace_bytes
    assert exported.prototype in (tmp_path / "out" / "blur.h").read_text()
    shapes = app.shapes(app.small_sizes)
    again = autosched.load_schedule(tmp_path / "out" / "schedule.json", app.build(), shapes, target)
    assert again.schedule == scheduled.schedule
    assert "@" not in (tmp_path / "out" / "CMakeLists.txt").read_text()


def test_equal_schedules_export_equal_texts(tmp_path: Path) -> None:
    for name in ("a", "b"):
        scheduled = autosched.schedule(odd(), ODD_SHAPES, "h200", strategy="roots")
        scheduled.export(tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_header_documents_every_argument(tmp_path: Path) -> None:
    exported = autosched.schedule(odd(), ODD_SHAPES, "h200", strategy="roots").export(tmp_path)
    header = (tmp_path / f"{exported.name}.h").read_text()
    for line in [
        "/* input register1 (register in the pipeline): float16 [37][53], dimensions y, x (its bits, as in an array of"
        " __half);",
        " * its first element is the pipeline's point y = 1, EOF = 1;",
        " * its address is a multiple of 2 bytes. */",
        "#define EXAMPLE_PIPELINE_USTDOUT_EXTENT_0 35",
        "#define EXAMPLE_PIPELINE_USTDOUT_COUNT ((size_t)1785u)",
        "/* input m_pi (M_PI in the pipeline): bool [37][53], dimensions y, x (each byte 0 or 1). */",
        "/* parameter stream1 (stream in the pipeline): float16, rounded to float16. */",
        "#define EXAMPLE_PIPELINE_NULLPTR1_DEFAULT (-INT64_C(1099511627779))",
        "#define EXAMPLE_PIPELINE_UAS_SCRATCH_DEFAULT 1",
    ]:
        assert line in header.splitlines(), line


def test_parameters_that_are_built_in_are_named(tmp_path: Path) -> None:
    x, radius = autosched.Var("x"), autosched.Param("radius", autosched.int32)
    image, out = autosched.Input("image", autosched.float32, 1), autosched.Func("out")
    out[x] = image[x + radius]
    pipeline = autosched.Pipeline(out.over(x=(0, 8)), name="shifted")
    scheduled = autosched.schedule(pipeline, {"image": (10,)}, "h200", {"radius": 2}, strategy="roots")
    exported = scheduled.export(tmp_path)
    assert "radius" not in exported.prototype
    assert "/* Parameters that are built in: radius = 2. */" in (tmp_path / "shifted.h").read_text()


def test_command(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    printed = CliRunner().invoke(main, ["export", "blur", *SIZES, *ROOTS, "--out", out])
    assert printed.exit_code == 0, printed.stderr
    assert printed.stdout.startswith("cudaError_t blur(const uint16_t *input, uint16_t *output, void *workspace")
    assert (tmp_path / "out" / "blur.cu").exists()
    schedule = str(tmp_path / "out" / "schedule.json")
    arguments = ["--schedule", schedule, "--out", str(tmp_path / "other"), "--name", "smooth", "--json"]
    described = CliRunner().invoke(main, ["export", "blur", *SIZES, *arguments])
    assert described.exit_code == 0, described.stderr
    document = json.loads(described.stdout)
    assert (document["name"], document["target"]) == ("smooth", "H200")
    assert all(Path(file).exists() for file in document["files"])
    assert (tmp_path / "other" / "schedule.json").read_text() == Path(schedule).read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*ROOTS, "--name", "a b"], "cannot be named 'a b'"),
        ([*ROOTS, "--schedule", "missing.json"], "leave out --strategy"),
        (["--target", "gpu9000"], "gpu9000"),
        (["--schedule", "missing.json"], "missing.json"),
    ],
)
def test_command_refuses(arguments: list[str], message: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["export", "blur", *SIZES, *arguments, "--out", str(out)])
    assert result.exit_code == 2
    assert message in result.stderr
    assert not out.exists()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    app = get_app("blur")
    scheduled = autosched.schedule(app.build(), app.shapes(app.small_sizes), "cpu", strategy="roots")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="it is no directory"):
        scheduled.export(tmp_path / "file")
