"""Builds exports with this machine's compilers and runs them; CUDA in the emulator."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import ScheduledPipeline
from autosched.export import Exported
from autosched.runtime.compile.host_compiler import find_compiler, kernel_flags
from autosched.runtime.emulator.native import load_runtime, read_sources

Array = np.ndarray[Any, Any]

DEVICE = Path(__file__).parent / "device"
_EMULATOR_FLAGS = (
    "-std=c++17", "-O1", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing", "-fno-ivopts",
)  # fmt: skip
_KERNEL = re.compile(r"^KERNEL\((\w+), \d+(?:, 1)?\)\((.*?)\)\n\{", re.MULTILINE | re.DOTALL)


def run(command: Sequence[str | Path], directory: Path | None = None) -> str:
    """Run a command that must go well; its output is in the message if it does not."""
    done = subprocess.run([str(c) for c in command], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def program(name: str) -> str:
    """Return the path of a program; without it, the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def emulated_library(exported: Exported, build: Path) -> Path:
    """Compile an exported CUDA file for the host, its kernels against the emulator, and return the library."""
    sources = [file for file in exported.files if file.suffix == ".cu"]
    text = "".join(file.read_text(encoding="utf-8") for file in sources)
    declared = "".join(f"    void {name}({parameters});\n" for name, parameters in _KERNEL.findall(text))
    assert text.count("\nKERNEL(") == declared.count("void ")
    prelude = [
        read_sources("abi.h"),
        _launch_structs(),
        "#define AS_TRACED 0\n#define AS_GRANULE 1\n#define AS_SITE_DEPTH(site) 0\n",
        read_sources("checks.h", "macros.h"),
        f"struct as_kernel : as_thread {{\n{declared}}};\n",
        (DEVICE / "launch.h").read_text(encoding="utf-8"),
    ]
    (build / "prelude.h").write_text("\n".join(prelude), encoding="utf-8")
    library = build / f"lib{exported.name}.so"
    chosen = ['-DAUTOSCHED_PRELUDE="prelude.h"', f"-I{build}", f"-I{DEVICE}"]
    compiler = [*find_compiler("c++").command, *_EMULATOR_FLAGS]
    runtime = Path(load_runtime()._name)
    run([*compiler, *chosen, "-fPIC", "-shared", "-x", "c++", *sources, "-x", "none", runtime, "-o", library])
    return library


def _launch_structs() -> str:
    """Return how the emulator's runtime, which is compiled already, declares a launch and its errors."""
    text = read_sources("runtime.h")
    return f"#include <stdint.h>\n{text[text.index('struct as_error') : text.index('struct FreeDeleter')]}"


def emulated_example(exported: Exported, build: Path) -> Path:
    """Return the exported example, linked to the library for the emulator."""
    library, example = emulated_library(exported, build), build / "example"
    compiler = [*find_compiler("c++").command, "-std=c++17", "-Wall", "-Werror", f"-I{DEVICE}"]
    run([*compiler, exported.directory / "example.cpp", library, f"-Wl,-rpath,{build}", "-o", example])
    return example


def c_example(exported: Exported, build: Path) -> Path:
    """Return the exported example in C, linked to the exported C file."""
    objects = [build / f"{exported.name}.o", build / "example.o"]
    compiler = [*find_compiler("c").command, *kernel_flags("c"), "-Wall", "-Wextra", "-Werror", "-c"]
    for target in objects:
        run([*compiler, exported.directory / f"{target.stem}.c", "-o", target])
    example = build / "example"
    openmp = [flag for flag in kernel_flags("c") if flag == "-fopenmp"]
    run([*find_compiler("c").command, *objects, *openmp, "-lm", "-o", example])
    return example


def results(example: Path, scheduled: ScheduledPipeline, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of an exported example, by public name; inputs are passed in files."""
    signature = scheduled.signature
    specs = [*signature.inputs, *signature.outputs]
    files = [example.parent / f"{k}.bin" for k in range(len(specs))]
    for spec, file in zip(signature.inputs, files, strict=False):
        inputs[spec.name].tofile(file)
    run([example, *files])
    written = list(zip(specs, files, strict=True))[len(signature.inputs) :]
    return {spec.name: np.fromfile(file, spec.dtype.numpy).reshape(spec.shape) for spec, file in written}


def expected(scheduled: ScheduledPipeline, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of the library's C backend, by public name."""
    found = scheduled.compile("cpu")(inputs)
    names = [spec.name for spec in scheduled.signature.outputs]
    return dict(zip(names, [found] if len(names) == 1 else found, strict=True))


def assert_same_bits(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    """Check that arrays are equal in every bit, NaN and zeros included."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].tobytes() == array.tobytes(), name
