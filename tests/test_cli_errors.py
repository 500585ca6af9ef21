"""The command line on bad input: one clear error on stderr, exit code 2, nothing on stdout, nothing written."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from autosched.apps import get_app
from autosched.cli import main
from autosched.commands.files import read_arrays, replacing, write_arrays
from autosched.lang.dtypes import bfloat16, float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline

SIZES = ("--size", "H=20", "--size", "W=30")


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command that must fail, in an empty directory that must stay as it was; return its message."""
    monkeypatch.chdir(tmp_path)

    def check(*arguments: str | Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
        assert result.stdout == ""
        assert sorted(tmp_path.rglob("*")) == before
        assert "Traceback" not in result.stderr
        return result.stderr

    return check


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Inputs of unsharp."""
    path = tmp_path / "in.npz"
    np.savez(path, input=get_app("unsharp").make_inputs({"H": 20, "W": 30})["input"])
    return path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A schedule of blur."""
    path = tmp_path / "s.json"
    result = CliRunner().invoke(main, ["schedule", "blur", *SIZES, "--strategy", "roots", "--out", str(path)])
    assert result.exit_code == 0
    return path


OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown app": (("run", "blurr"), "error: no app 'blurr': did you mean 'blur'?"),
    "unknown app to schedule": (("schedule", "hariss"), "error: no app 'hariss': did you mean 'harris'?"),
    "unknown target": (("schedule", "blur", "--target", "h20"), "error: unknown target 'h20'; did you mean"),
    "unknown backend": (("run", "blur", "--target", "gpu"), "'gpu' is not one of"),
    "parameter without value": (
        ("run", "unsharp", "--param", "sigma"),
        "--param 'sigma' is not of the form NAME=VALUE",
    ),
    "parameter with empty value": (("run", "unsharp", "--param", "sigma="), "is not of the form NAME=VALUE"),
    "parameter twice": (("run", "unsharp", "--param", "sigma=1", "--param", "sigma=2"), "--param sigma is given twice"),
    "parameter that is no number": (("run", "unsharp", "--param", "sigma=wide"), "'wide': give a number"),
    "unknown parameter": (("run", "unsharp", "--param", "sgma=1"), "no parameter 'sgma': did you mean 'sigma'?"),
    "impossible parameter": (("run", "unsharp", "--param", "sigma=0"), "give a number of at least"),
    "unknown size": (("run", "blur", "--size", "Z=3"), "blur has no size 'Z'"),
    "size that is no number": (("run", "blur", "--size", "H=ten"), "--size H=ten: give a whole number"),
    "negative size": (("run", "blur", "--size", "H=-1"), "--size H=-1: give a whole number"),
    "size of nothing": (("run", "blur", "--size", "H=0"), "give at least 1"),
    "size beyond memory": (
        ("run", "blur", "--size", "H=99999999", "--size", "W=99999999"),
        "the inputs of blur need 2e+16 bytes",
    ),
    "no such input file": (("run", "blur", "--inputs", "in.npz"), "cannot read in.npz: No such file"),
    "no such schedule": (("run", "blur", *SIZES, "--schedule", "s.json"), "cannot read the schedule s.json"),
    "unwritable output": (("run", "blur", *SIZES, "--output", "no/such/o.npz"), "cannot write no/such/o.npz: No such"),
    "output is a directory": (("run", "blur", *SIZES, "--output", "."), "cannot write .: it exists and is no file"),
    "output is a device": (("run", "blur", *SIZES, "--output", "/dev/null"), "cannot write /dev/null: it exists"),
    "unwritable schedule": (
        ("schedule", "blur", "--out", "no/s.json"),
        "cannot write no/s.json: there is no directory",
    ),
    "unknown option": (("run", "blur", "--htlm", "x"), "No such option"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options(case: str, refused: Callable[..., str]) -> None:
    arguments, message = OPTIONS[case]
    assert message in refused(*arguments)


ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "missing key": ({"img": np.zeros((3, 4, 5), np.float32)}, "lacks input 'input'; it holds img"),
    "rank": ({"input": np.zeros((4, 5), np.float32)}, "has shape [4, 5], not [3, H, W]: give it 3 dimensions"),
    "channels": ({"input": np.zeros((4, 5, 6), np.float32)}, "not [3, H, W]: dimension 0 must be 3"),
    "empty": ({"input": np.zeros((3, 0, 6), np.float32)}, "dimension 1 must be at least 1"),
    "dtype": ({"input": np.zeros((3, 4, 5))}, "input 'input': got dtype float64, expected dtype float32"),
    "byte order": ({"input": np.zeros((3, 4, 5), ">f4")}, "input 'input': got dtype >f4, expected dtype float32"),
    "layout": ({"input": np.zeros((3, 4, 5), np.float32, order="F")}, "not C-contiguous"),
    "objects": ({"input": np.array([1, "a"], object)}, "array 'input' of in.npz cannot be read (Object arrays"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays(case: str, refused: Callable[..., str], tmp_path: Path) -> None:
    arrays, message = ARRAYS[case]
    np.savez(tmp_path / "in.npz", **arrays)
    assert message in refused("run", "unsharp", "--inputs", "in.npz", "--output", "out.npz")


def test_arrays_of_bfloat16_are_read_again(tmp_path: Path) -> None:
    written = np.arange(6).astype(bfloat16.numpy).reshape(2, 3)
    with replacing(tmp_path / "out.npz") as file:
        write_arrays(file, {"image": written})
    read = read_arrays(tmp_path / "out.npz", ["image"])["image"]
    assert read.dtype == bfloat16.numpy and read.tobytes() == written.tobytes()


def test_layout_error_says_how_to_fix_it(refused: Callable[..., str], tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", input=np.zeros((3, 4, 5), np.float32, order="F"))
    assert "np.ascontiguousarray(input)" in refused("run", "unsharp", "--inputs", "in.npz")


def test_inputs_and_sizes_together(refused: Callable[..., str], image: Path) -> None:
    assert "--size is for generated inputs" in refused("run", "unsharp", "--inputs", image, *SIZES)


def test_inputs_that_disagree(refused: Callable[..., str], tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", A=np.zeros((2, 3), np.float32), B=np.zeros((4, 2), np.float32))
    assert "K is 4 here, but 3 by input 'A'" in refused("run", "sgemm", "--inputs", "in.npz")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 truncated"])
def test_file_that_is_no_archive(content: bytes, refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "in.npz").write_bytes(content)
    assert "in.npz is no .npz file" in refused("run", "unsharp", "--inputs", "in.npz")


def test_single_array_file(refused: Callable[..., str], tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((3, 4, 5), np.float32))
    assert "in.npy is a .npy file, one array without a name" in refused("run", "unsharp", "--inputs", "in.npy")


def test_corrupted_and_strange_members(refused: Callable[..., str], image: Path) -> None:
    content = bytearray(image.read_bytes())
    content[len(content) // 2] ^= 0xFF
    image.write_bytes(content)
    assert "array 'input' of in.npz cannot be read (Bad CRC-32" in refused("run", "unsharp", "--inputs", "in.npz")
    with zipfile.ZipFile(image, "w") as archive:
        archive.writestr("input", b"text")
    assert "'input' of in.npz is no array" in refused("run", "unsharp", "--inputs", "in.npz")


def test_missing_compiler(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nonexistent")
    monkeypatch.setattr("autosched.runtime.backends.factory.gpu_problem", lambda: "there is none")
    for backend in ((), ("--target", "cpu")):
        message = refused("run", "blur", *SIZES, "--output", "out.npz", *backend)
        assert "CC names '/nonexistent', which does not exist: install gcc" in message


def test_missing_cxx_compiler(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent")
    message = refused("run", "blur", *SIZES, "--output", "out.npz", "--target", "emulator")
    assert "CXX names '/nonexistent', which does not exist" in message


def test_no_gpu(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.errors import InputError

    def detect() -> None:
        raise InputError("no GPU can be used: the driver is missing")

    monkeypatch.setattr("autosched.target.Target.detect", detect)
    assert "no GPU can be used" in refused("run", "blur", *SIZES, "--output", "out.npz", "--target", "cuda")


def test_schedule_of_another_pipeline(refused: Callable[..., str], saved: Path) -> None:
    message = refused("run", "harris", *SIZES, "--schedule", saved, "--output", "out.npz")
    assert "s.json was made for pipeline 'blur'" in message and "not for 'harris'" in message


def test_schedule_of_another_version(refused: Callable[..., str], saved: Path) -> None:
    saved.write_text(saved.read_text().replace('"version": 1', '"version": 99'))
    assert "is a schedule of version 99, and this release reads version 1" in refused(
        "run", "blur", *SIZES, "--schedule", saved, "--output", "out.npz"
    )


def test_truncated_schedule(refused: Callable[..., str], saved: Path) -> None:
    saved.write_text(saved.read_text()[:200])
    assert "is no JSON" in refused("run", "blur", *SIZES, "--schedule", saved, "--output", "out.npz")


def test_schedule_for_other_sizes(refused: Callable[..., str], saved: Path) -> None:
    message = refused("run", "blur", "--size", "H=2000", "--size", "W=30", "--schedule", saved, "--output", "out.npz")
    assert "illegal schedule for 'blur'" in message and "points" in message


@pytest.mark.parametrize("backend", ["cpu", "emulator"])
def test_schedule_with_too_many_threads(backend: str, refused: Callable[..., str], saved: Path) -> None:
    document = json.loads(saved.read_text())
    for kernel in document["kernels"]:
        for loop in kernel["roots"][0]["loops"]:
            loop["extent"] = {"block": 1, "thread": 64}[loop["kind"]]
    saved.write_text(json.dumps(document))
    message = refused("run", "blur", *SIZES, "--schedule", saved, "--output", "out.npz", "--target", backend)
    assert "64 x 64 x 1 threads per block exceed the limit of 1024 on H200" in message


def test_schedule_with_too_much_shared_memory(refused: Callable[..., str], saved: Path) -> None:
    """The first stage computed in every block of the second, for a tile that no shared memory holds."""
    document = json.loads(saved.read_text())
    _, output = document["kernels"]
    rows, columns = 4096, 512
    loops = [("y", "block", 1), ("x", "block", 1), ("x", "thread", 32), ("y", "thread", 32)]
    loops += [("y", "serial", rows // 32), ("x", "serial", columns // 32)]
    output["roots"][0]["loops"] = [{"dim": d, "kind": k, "extent": n} for d, k, n in loops]
    serial = [("x", "thread", 32), ("y", "thread", 32), ("y", "serial", 200), ("x", "serial", 20)]
    output["members"] = [
        {
            "func": "blur_x",
            "at": {"level": "block", "host": {"func": "output", "number": 0}, "depth": 2},
            "storage_order": ["y", "x"],
            "stored": False,
            "stages": [{"number": 0, "loops": [{"dim": d, "kind": k, "extent": n} for d, k, n in serial]}],
        }
    ]
    document["kernels"] = [output]
    saved.write_text(json.dumps(document))
    sizes = ("--size", f"H={rows}", "--size", f"W={columns}")
    message = refused("run", "blur", *sizes, "--schedule", saved, "--output", "out.npz", "--target", "emulator")
    assert "bytes of shared memory exceed the limit of 232448 per block on H200" in message


def _app_of(build: Callable[[], Pipeline]) -> Any:
    """Return an app whose pipeline is wrong; its inputs are those of blur_forma."""
    return dataclasses.replace(get_app("blur_forma"), build=build)


def out_of_range() -> Pipeline:
    y, x = Var("y"), Var("x")
    image, edge = Input("input", float32, 2), Func("edge")
    edge[y, x] = image[y, x + 1] - image[y, x]
    return Pipeline(edge.over(y=(0, image.shape[0]), x=(0, image.shape[1])))


def undefined() -> Pipeline:
    return Pipeline(Func("nothing"))


def cyclic() -> Pipeline:
    x = Var("x")
    f, g = Func("f"), Func("g")
    f[x] = 0.0
    g[x] = f[x]
    f[x] = g[x]
    return Pipeline(g)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (out_of_range, "stage 'edge' reads input 'input' out of range: index x + 1 in dimension 1 (x) reaches [1, 30]"),
        (undefined, "Func 'nothing' is undefined"),
        (cyclic, "cyclic definition:"),
    ],
)
def test_wrong_pipelines(
    build: Callable[[], Pipeline], message: str, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.commands.problem.get_app", lambda name: _app_of(build))
    shown = refused("run", "mine", *SIZES, "--output", "out.npz")
    assert message in shown and "Hint:" in shown and Path(__file__).name in shown


def test_failure_while_running_leaves_nothing(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.errors import LaunchError

    def broken(*_: Any) -> None:
        raise LaunchError("the kernel stops")

    monkeypatch.setattr("autosched.commands.run.compute", broken)
    assert refused("run", "blur", *SIZES, "--output", "out.npz") == "error: the kernel stops\n"
