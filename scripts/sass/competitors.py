"""Kernels precompiled by Halide, with the launches of one call recorded by a fake driver."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autosched.runtime.compile.ptxas_log import KernelResources, parse_ptxas_log
from sass.launches import raw_launch
from sass.machine import Launch

NAMES = {"blur": "blur3x3"}
"""The peers' names of apps, where they differ."""
_PARAMETER = re.compile(r"\.param \.\w?(\d+)")
_CALL = """
import json, sys
sys.path.insert(0, sys.argv[1])
import run_halide_peers
with open(sys.argv[2] + "/manifest.json") as f:
    record = json.load(f)[int(sys.argv[3])]
run_halide_peers.Variant(sys.argv[2], record).call()
"""


@dataclass(frozen=True)
class PeerKernel:
    """One launch of a compiled kernel.

    Attributes:
        name: The kernel.
        cubin: Module with its machine code.
        launch: Its launch configuration.
        shared_bytes: Dynamic shared memory.
        resources: Its resources by ptxas.
    """

    name: str
    cubin: bytes
    launch: Launch
    shared_bytes: int
    resources: KernelResources


class Peers:
    """The archive of compiled pipelines, unpacked.

    Args:
        archive: ``paper.tar.xz``, or its folder.
        ptxas: Path of ptxas.
        arch: Architecture to compile their PTX for.
    """

    def __init__(self, archive: Path, ptxas: str, arch: str) -> None:
        archive = archive / "paper.tar.xz" if archive.is_dir() else archive
        self.tools = archive.parent.parent  # folder of run_halide_peers.py
        self.ptxas, self.arch = ptxas, arch
        self._folder = tempfile.TemporaryDirectory()
        with tarfile.open(archive) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # none before Python 3.11.4
            tar.extractall(self._folder.name)
        self.folder = next(Path(self._folder.name).glob("*/manifest.json")).parent
        self.records: list[dict[str, Any]] = json.loads((self.folder / "manifest.json").read_text())

    def variants(self, app: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the GPU variants of an app, with their numbers."""
        for number, record in enumerate(self.records):
            if record["app"] == NAMES.get(app, app) and "cuda" in record["target"] and "library" in record:
                yield number, record

    def kernels(self, number: int) -> list[PeerKernel]:
        """Return the launches of one call.

        Raises:
            RuntimeError: If the pipeline, or ptxas, fails.
        """
        with tempfile.TemporaryDirectory() as record:
            environment = {**os.environ, "LD_LIBRARY_PATH": str(_recorder().parent), "LAUNCH_RECORD": record}
            command = [sys.executable, "-c", _CALL, str(self.tools), str(self.folder), str(number)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip()[-500:])
            modules = {p.stem: self._assemble(p) for p in Path(record).glob("module_*.ptx")}
            return [self._kernel(line, modules) for line in (Path(record) / "launches").read_text().splitlines()]

    def _assemble(self, ptx: Path) -> tuple[bytes, str, Mapping[str, KernelResources]]:
        cubin = ptx.with_suffix(".cubin")
        command = [self.ptxas, f"-arch={self.arch}", "-v", "-o", str(cubin), str(ptx)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{self.ptxas}: {done.stderr.strip()[-500:]}")
        return cubin.read_bytes(), ptx.read_text(), parse_ptxas_log(done.stderr)

    def _kernel(self, line: str, modules: Mapping[str, tuple[bytes, str, Mapping[str, KernelResources]]]) -> PeerKernel:
        module, name, *rest = line.split()
        cubin, ptx, resources = modules[f"module_{module}"]
        gx, gy, gz, bx, by, bz, shared = map(int, rest[:7])
        entry = ptx[ptx.index(f".entry {name}(") :]
        sizes = [int(bits) // 8 for bits in _PARAMETER.findall(entry[: entry.index(")")])]
        data = bytearray()
        for size, value in zip(sizes, rest[7:], strict=True):
            data += bytes(-len(data) % size) + int(value, 16).to_bytes(8, "little")[:size]
        launch = raw_launch((gx, gy, gz), (bx, by, bz), bytes(data), self.arch)
        return PeerKernel(name, cubin, launch, shared, resources[name])


@lru_cache(maxsize=1)
def _recorder() -> Path:
    """Return the compiled fake driver."""
    folder = Path(tempfile.mkdtemp())
    library = folder / "libcuda.so.1"
    source = Path(__file__).with_name("launch_recorder.c")
    compiler = shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", str(library), str(source)], check=True)
    return library
