"""Export of a scheduled pipeline: every file follows from one description of its interface."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autosched.export.c_source import c_source
from autosched.export.cuda_source import cuda_source, print_kernels, without_needless_spills
from autosched.export.directory import write_export
from autosched.export.header import header
from autosched.export.interface import Interface
from autosched.export.names import function_name
from autosched.export.project import cmake_lists, example, readme
from autosched.runtime.backends.cuda import alignments
from autosched.schedule.io.serialise import to_json
from autosched.scheduled_protocol import Scheduled


@dataclass(frozen=True, slots=True)
class Exported:
    """An export.

    Attributes:
        name: Name of the function, and of its files and library.
        directory: Directory of the files.
        files: The files.
        prototype: The function's C declaration.
        workspace_bytes: Scratch memory of a call.
    """

    name: str
    directory: Path
    files: tuple[Path, ...]
    prototype: str
    workspace_bytes: int

    def __repr__(self) -> str:
        return (
            f"<Exported {self.name}: {len(self.files)} files in {self.directory}, "
            f"{self.workspace_bytes} bytes of workspace>"
        )


def export(
    scheduled: Scheduled,
    directory: str | os.PathLike[str],
    *,
    name: str | None = None,
    fast_math: bool = False,
    any_alignment: bool = False,
) -> Exported:
    """Write a scheduled pipeline as source code that needs neither Python nor this library.

    The export has a CUDA file with kernels and a host function for a GPU, or a C file for the CPU; a header for C and
    C++, a CMakeLists.txt, an example, a README.md and the schedule.

    Args:
        scheduled: The pipeline.
        directory: The directory, which is made if it does not exist. An earlier export of this name is replaced.
        name: Name of the function, of its files and of the library; the pipeline's when left out.
        fast_math: Build CUDA with approximate division, square roots and elementary functions; C stays exact.
        any_alignment: Accept arrays with the alignment of their element type. Otherwise vector accesses of GPU kernels
            need an alignment of up to 16 bytes, which whole allocations always have.

    Raises:
        InputError: If the name cannot be used, the directory cannot be written, or holds something else.
        CacheError: If the cache of compiled kernels, which is used to find spills, cannot be written.
    """
    function = function_name(scheduled.bound.pipeline.name, name)
    interface, files = _files(scheduled, function, fast_math=fast_math, any_alignment=any_alignment)
    where = Path(directory)
    return Exported(
        name=function,
        directory=where,
        files=write_export(where, function, files),
        prototype=interface.prototype,
        workspace_bytes=interface.workspace_bytes,
    )


def _files(
    scheduled: Scheduled, name: str, *, fast_math: bool, any_alignment: bool
) -> tuple[Interface, Mapping[str, str]]:
    """Return the interface of an export and the text of each of its files."""
    program, target = scheduled.program, scheduled.target
    program = program.without_vectors() if any_alignment else program
    interface = Interface.of(name, program, scheduled.signature, target)
    if interface.is_cuda:
        kernels = without_needless_spills(print_kernels(program, interface), target.arch, fast_math=fast_math)
        interface = interface.with_alignments(alignments(program, kernels))
        source = {f"{name}.cu": cuda_source(interface, program, kernels), "example.cpp": example(interface)}
    else:
        source = {f"{name}.c": c_source(interface, program), "example.c": example(interface)}
    return interface, {
        **source,
        f"{name}.h": header(interface),
        "CMakeLists.txt": cmake_lists(interface, fast_math=fast_math),
        "README.md": readme(interface, fast_math=fast_math),
        "schedule.json": to_json(scheduled.bound, scheduled.schedule),
    }
