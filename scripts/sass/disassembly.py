"""Disassemble compiled kernels with NVIDIA's nvdisasm (package nvidia-cuda-nvdisasm, or the CUDA toolkit's)."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

from sass.instructions import Code, parse_sass


class NoDisassembler(Exception):
    """nvdisasm is missing."""


def find_nvdisasm(given: str | None = None) -> str:
    """Return the path of nvdisasm: the given one, the Python package's, or the one on the PATH.

    Raises:
        NoDisassembler: If it is missing.
    """
    if given is not None:
        if shutil.which(given) is None:
            raise NoDisassembler(f"{given} is not an executable program")
        return given
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder).glob("*/bin/nvdisasm")):
            return str(path)
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path="/usr/local/cuda/bin")
    if found is None:
        raise NoDisassembler("nvdisasm is missing: pip install nvidia-cuda-nvdisasm, or name it with --nvdisasm")
    return found


def disassemble(cubin: bytes, nvdisasm: str) -> dict[str, Code]:
    """Return the kernels of a cubin by name, with source lines where recorded.

    Raises:
        RuntimeError: If nvdisasm fails.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([nvdisasm, "-c", "-g", file.name], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{nvdisasm}: {done.stderr.strip()}")
    return parse_sass(done.stdout)
