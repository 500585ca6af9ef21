"""How the command line ends: full and closed streams, interrupts, mistakes, hostile settings and options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click
import pytest
from click.testing import CliRunner

from autosched.cli import main
from autosched.commands import exit_handling
from autosched.commands.group import CommandGroup

RUN = ("run", "blur", "--size", "H=16", "--size", "W=16", "--target", "cpu")
DIGITS = "9" * 5000
PRINTING: list[tuple[tuple[str, ...], str]] = [(("apps",), ""), (("--help",), ""), (("cache", "--json"), "1")]
"""Commands that print tables, help and JSON, and whether Python keeps nothing back."""


def cli(
    *arguments: str,
    stdout: int | IO[Any] = subprocess.PIPE,
    stderr: int | IO[Any] = subprocess.PIPE,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "autosched.cli", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(("arguments", "unbuffered"), PRINTING)
def test_full_standard_output(arguments: tuple[str, ...], unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        done = cli(*arguments, stdout=full, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(("arguments", "unbuffered"), PRINTING)
def test_closed_pipe_ends_without_a_message(arguments: tuple[str, ...], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed:
        done = cli(*arguments, stdout=closed, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_full_standard_error_still_has_an_exit_code() -> None:
    with open("/dev/full", "w") as full:
        assert cli("run", "no-such-app", stderr=full).returncode == 2


def test_closed_streams_are_no_mistake() -> None:
    program = f'exec "{sys.executable}" -m autosched.cli apps blur >&- 2>&-'
    assert subprocess.run(["sh", "-c", program], check=False, timeout=60).returncode == 0


def _ended_by(error: BaseException) -> tuple[int, str]:
    @click.group(cls=CommandGroup)
    def program() -> None:
        """Do nothing."""

    @program.command()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(program, ["fail"])
    return result.exit_code, result.stderr


def test_interrupt() -> None:
    code, said = _ended_by(KeyboardInterrupt())
    assert code == 130
    assert said.strip() == "interrupted"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device", "/tmp/x"), "error: /tmp/x: No space left on device"),
        (OSError(24, "Too many open files"), "error: Too many open files"),
        (MemoryError("4 GiB"), "error: not enough memory (4 GiB)"),
        (RecursionError("too deep"), "error: RecursionError: too deep; this is a mistake of autosched"),
        (ValueError(), "error: ValueError: ; this is a mistake"),
        (KeyError("a\nb"), "error: KeyError: 'a\\nb'; this is a mistake"),
        (click.UsageError("bad " + "x" * 5000), "error: bad xxx"),
    ],
)
def test_whatever_ends_a_command_is_one_line(error: BaseException, message: str) -> None:
    code, said = _ended_by(error)
    assert code == 2
    assert said.startswith(message)
    assert len(said.splitlines()) == 1
    assert len(said) < 500


def test_tracebacks_only_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0", "no"):
        monkeypatch.setenv("AUTOSCHED_DEBUG", value)
        assert "Traceback" not in CliRunner().invoke(main, ["run", "no-such-app"]).stderr
    monkeypatch.setenv("AUTOSCHED_DEBUG", "1")
    result = CliRunner().invoke(main, ["run", "no-such-app"])
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback (most recent call last)")
    assert "error: no app 'no-such-app'" in result.stderr.splitlines()[-1]


HOSTILE: dict[str, tuple[dict[str, str], str]] = {
    "open quote": ({"AUTOSCHED_CC": 'gcc "x'}, "AUTOSCHED_CC is 'gcc \"x', which is no command line"),
    "compiler that writes nothing": (
        {"AUTOSCHED_CC": "true"},
        "reports success but has written no library",
    ),
    "unknown user": ({"AUTOSCHED_CACHE_DIR": "~nosuchuser/x"}, "AUTOSCHED_CACHE_DIR is '~nosuchuser/x'"),
    "long name": ({"AUTOSCHED_CACHE_DIR": "/tmp/" + "x" * 300}, "File name too long): set AUTOSCHED_CACHE_DIR"),
    "long path": ({"AUTOSCHED_CACHE_DIR": "/tmp" + "/x" * 3000}, "File name too long): set AUTOSCHED_CACHE_DIR"),
    "cache in a file": ({"AUTOSCHED_CACHE_DIR": "/etc/passwd"}, "Not a directory): set AUTOSCHED_CACHE_DIR"),
    "jobs": ({"AUTOSCHED_COMPILE_JOBS": DIGITS}, "AUTOSCHED_COMPILE_JOBS is '999"),
    "graphs": ({"AUTOSCHED_CUDA_GRAPHS": DIGITS}, "AUTOSCHED_CUDA_GRAPHS is '999"),
    "debug": ({"AUTOSCHED_DEBUG": "perhaps"}, "AUTOSCHED_DEBUG is 'perhaps': set it to 0 or 1"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_settings(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, message = HOSTILE[case]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(main, RUN)
    assert result.exit_code == 2, (result.output, result.exception)
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert len(last) < 600


@pytest.mark.parametrize("command", ["cache", "doctor"])
def test_commands_on_a_cache_that_cannot_be_read(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", "/tmp/" + "x" * 300)
    result = CliRunner().invoke(main, [command])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "File name too long" in result.output


OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "size": (("run", "blur", "--size", f"H={DIGITS}"), "give a whole number of at most"),
    "param": (("run", "unsharp", "--param", f"sigma={DIGITS}"), "give a number"),
    "long param": (("run", "unsharp", "--param", f"sigma={DIGITS[:4200]}"), "give a number"),
    "nan param": (("run", "unsharp", "--param", "sigma=nan"), "give a number"),
    "seed": (("run", "blur", "--seed", DIGITS), "is not a valid integer range"),
    "large seed": (("run", "blur", "--seed", str(2**63)), "is not in the range"),
    "not a number": (("schedule", "blur", "--seconds", "nan"), "is no budget: give a finite number"),
    "infinite": (("schedule", "blur", "--seconds", "inf"), "is no budget"),
    "infinite by digits": (("schedule", "blur", "--seconds", DIGITS), "is no budget"),
    "infinite tuning": (("tune", "blur", "--seconds", "1e999"), "is no budget"),
    "infinite export": (("export", "blur", "out", "--seconds", "inf"), "is no budget"),
    "negative": (("schedule", "blur", "--seconds", "-inf"), "is not in the range"),
    "iterations": (("tune", "blur", "--iterations", DIGITS[:4000]), "is not in the range"),
    "NUL": (("run", "blur", "--inputs", "a\0b"), "has a NUL character"),
    "long path": (("run", "blur", "--schedule", DIGITS), "File name too long"),
    "long output": (("schedule", "blur", "--strategy", "roots", "--out", DIGITS), "File name too long"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_hostile_options(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message = OPTIONS[case]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert len(result.stderr) < 1000
    assert "mistake" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "OMP_STACKSIZE"])
def test_openmp_that_asks_for_too_much(variable: str) -> None:
    """It would end the process: there is not enough memory for the stacks of all threads."""
    value = {"OMP_NUM_THREADS": "100000", "OMP_STACKSIZE": "90000G"}[variable]
    done = cli(*RUN, **{variable: value})
    assert (done.returncode, done.stderr) == (0, "")


LOADED_BEFORE = """
import ctypes, os, numpy as np, autosched
from autosched import Func, Input, Pipeline, Var
os.environ["OMP_NUM_THREADS"] = "100000"
library = ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
assert library.omp_get_max_threads() == 100000
y, x, a, f = Var("y"), Var("x"), Input("a", "float32", 2), Func("f")
f[y, x] = a[y, x] + 1
s = autosched.schedule(Pipeline(f), {"a": (512, 512)}, "cpu", strategy="roots")
print(s.compile("cpu")(a=np.ones((512, 512), np.float32)).sum(), library.omp_get_max_threads())
"""


def test_openmp_that_another_library_has_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED_BEFORE], capture_output=True, text=True, timeout=120, check=False
    )
    if "libgomp.so.1: cannot open" in done.stderr:
        pytest.skip("this machine has no libgomp")
    assert done.stdout.split() == ["524288.0", "100000"], done.stderr


def test_interrupted_process_ends_as_shells_expect(tmp_path: Path) -> None:
    program = "import os, signal, click; from autosched.commands.exit_handling import exit_code_of; import sys\n"
    program += "from autosched.cli import main\nfrom autosched.commands import run\n"
    program += "main.commands['apps'].callback = lambda **_: os.kill(os.getpid(), signal.SIGINT)\n"
    program += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # it may be ignored where the tests run
    program += "main(['apps'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == exit_handling.INTERRUPTED == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr


def test_exit_codes_of_commands_pass() -> None:
    answers: list[tuple[Callable[[], object], int]] = [(lambda: None, 0), (lambda: 1, 1), (lambda: 0, 0)]
    assert [exit_handling.exit_code_of(run) for run, _ in answers] == [code for _, code in answers]
