"""Diagnosis of this machine: usable compilers and packages, and remedies for missing ones."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from autosched.errors import AutoschedError, CompileError
from autosched.runtime.compile.host_compiler import find_compiler
from autosched.runtime.compile.nvrtc import check_compiler, nvrtc_version
from autosched.settings import child_environment, settings
from autosched.target import Target

_TIMEOUT_S = 60

_OPENMP_PROGRAM = """\
#ifndef _OPENMP
#error "the compiler ignores -fopenmp"
#endif
#include <omp.h>
#include <stdio.h>
int main(void) {
    int threads = 0, sum = 0;
    #pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 1000; i++) {
        if (i == 0) threads = omp_get_num_threads();
        sum += i;
    }
    printf("%d", threads);
    return sum != 499500;
}
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding about this machine.

    Attributes:
        name: The compiler, package or device.
        ok: Whether it can be used.
        detail: Version and properties, or the reason of the failure.
        remedy: One sentence with the way out; empty if `ok`.
    """

    name: str
    ok: bool
    detail: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Probe:
    """A probe of the machine: `probe` returns details or raises."""

    name: str
    probe: Callable[[], str]
    remedy: str

    def run(self) -> Check:
        try:
            return Check(self.name, True, self.probe(), "")
        except Exception as error:  # every failure is part of the report
            lines = str(error).strip().splitlines()
            kind = "" if isinstance(error, AutoschedError) else f"{type(error).__name__}: "
            detail = f"{kind}{lines[0]}" if lines else type(error).__name__
            return Check(self.name, False, detail, self.remedy)


def diagnose() -> list[Check]:
    """Check everything that the library can use on this machine.

    Takes a few seconds, because it compiles and imports. Never raises: failures are reported.

    Returns:
        The findings, in a fixed order.
    """
    return [probe.run() for probe in _PROBES]


def _python() -> str:
    return f"{platform.python_version()} at {sys.executable}"


def _numpy() -> str:
    import numpy as np

    return np.__version__


def _torch() -> str:
    import torch

    return str(torch.__version__)


def _c_compiler() -> str:
    return find_compiler("c").title


def _cxx_compiler() -> str:
    return find_compiler("c++").title


def _openmp() -> str:
    compiler = find_compiler("c").command
    with tempfile.TemporaryDirectory(prefix="autosched-doctor-") as directory:
        source, program = Path(directory) / "probe.c", Path(directory) / "probe"
        source.write_text(_OPENMP_PROGRAM)
        _run([*compiler, "-O1", "-fopenmp", str(source), "-o", str(program)])
        return f"{_run([str(program)])} threads"


def _run(command: list[str]) -> str:
    """Return the output of a command, in the C locale.

    Raises:
        CompileError: It failed.
    """
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=child_environment(LC_ALL="C"), check=False
    )
    if done.returncode != 0:
        first_line = (done.stderr.strip() or "no message").splitlines()[0]
        raise CompileError(f"{shlex.join(command)} failed with status {done.returncode}: {first_line}")
    return done.stdout


def _nvrtc() -> str:
    check_compiler("sm_90")
    return f"{nvrtc_version()} compiles for sm_90 without a GPU (cuda-core {version('cuda-core')})"


def _cupy() -> str:
    return str(import_module("cupy").__version__)


def _cuda_device() -> str:
    target = Target.detect()
    return f"{target.name} ({target.arch}, {target.multiprocessors} multiprocessors)"


def _cache_directory() -> str:
    directory = settings().require_cache_dir()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".doctor-") as file:
        file.write(b"x")
        file.flush()
    return str(directory)


_PROBES = (
    _Probe("python", _python, "Install Python 3.11 or 3.12 and create the environment with it."),
    _Probe("numpy", _numpy, "Run `pip install 'numpy>=2.0'`."),
    _Probe("torch", _torch, "Run `pip install 'torch>=2.4'`; the CPU build is enough to schedule."),
    _Probe("C compiler", _c_compiler, "Install gcc or clang, or set AUTOSCHED_CC to one, to run on the CPU."),
    _Probe("C++ compiler", _cxx_compiler, "Install g++ or clang++, or set AUTOSCHED_CXX to one, to run the emulator."),
    _Probe("OpenMP", _openmp, "Install the OpenMP runtime of your C compiler (libgomp for gcc, libomp for clang)."),
    _Probe("NVRTC", _nvrtc, "Run `pip install 'autosched[nvrtc]'` to compile CUDA kernels; it needs no GPU."),
    _Probe("CuPy", _cupy, "Run `pip install 'autosched[cuda13]'`, or `autosched[cuda12]` for an older driver."),
    _Probe("CUDA device", _cuda_device, "Use a machine with an NVIDIA GPU and driver to launch kernels."),
    _Probe("cache directory", _cache_directory, "Set AUTOSCHED_CACHE_DIR to a directory you can write to."),
)
