"""Build files, README and example of an exported function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.export.header import default_text, shape_text
from autosched.export.interface import Interface, InterfaceScalar
from autosched.export.templates import fill
from autosched.host import has_fast_gathers, has_vector_math
from autosched.runtime.compile.host_compile_flags import EVERYWHERE, GNU, NO_IVOPTS, OTHERS
from autosched.runtime.compile.host_compiler import GATHERS, VECTOR_MATH, machine_flags, whole_lanes
from autosched.runtime.compile.nvrtc import NvrtcOptions

_STANDARD = "-std=c++17"
_CPU_OF_THIS_MACHINE = "-march=native"
_ANY_GNU = (NO_IVOPTS, *GNU)
"""Options of every version of gcc."""


def cmake_lists(interface: Interface, *, fast_math: bool, sources: Sequence[str] = ()) -> str:
    """Return the CMakeLists.txt of an export.

    Args:
        interface: The function.
        fast_math: Whether CUDA may approximate.
        sources: Names of the source files; that of the function when left out.
    """
    if not interface.is_cuda:
        flags = " ".join(flag for flag in EVERYWHERE if flag != _CPU_OF_THIS_MACHINE)
        native = " ".join((_CPU_OF_THIS_MACHINE, *machine_flags()))
        return fill(
            "CMakeLists.cpu.txt",
            **_names(interface),
            sources=" ".join(_sources(interface, sources)),
            flags=flags,
            native=native,
            gnu=" ".join(_ANY_GNU),
            clang=" ".join(OTHERS),
            lanes=" ".join(whole_lanes(interface.target.warp_size)),
            vector_math=VECTOR_MATH,
            gathers=GATHERS if has_fast_gathers() else "",
        )
    return fill(
        "CMakeLists.cuda.txt",
        **_names(interface),
        sources=" ".join(_sources(interface, sources)),
        architecture=interface.target.arch.removeprefix("sm_"),
        flags=" ".join(nvcc_flags(fast_math)),
    )


def readme(interface: Interface, *, fast_math: bool, sources: Sequence[str] = ()) -> str:
    """Return the README.md of an export.

    Args:
        interface: The function.
        fast_math: Whether CUDA may approximate.
        sources: Names of the source files; that of the function when left out.
    """
    arguments = [
        f"* `{a.identifier}`: {'output' if a.is_output else 'input'}, {shape_text(a)}" for a in interface.arrays
    ]
    for s in interface.scalars:
        default_note = f", in Python `{s.macro}_DEFAULT` unless given" if default_text(s) is not None else ""
        arguments.append(f"* `{s.identifier}`: {s.dtype} parameter{default_note}")
    arguments += [f"* `{s.identifier}`: {s.dtype} parameter, a value for each step" for s in interface.by_step]
    files = _sources(interface, sources)
    if interface.is_cuda:
        flags = {"flags": ["-O3", _STANDARD, f"-arch={interface.target.arch}", *nvcc_flags(fast_math)]}
    else:
        common = ["-std=gnu11", *EVERYWHERE, *machine_flags(), "-fopenmp"]
        vectors = [*whole_lanes(interface.target.warp_size), *([VECTOR_MATH] if has_vector_math() else [])]
        flags = {"gnu": [*common, *_ANY_GNU], "clang": [*common, *OTHERS, *vectors]}
    return fill(
        "README.cuda.md" if interface.is_cuda else "README.cpu.md",
        **_names(interface),
        **{compiler: " ".join(options) for compiler, options in flags.items()},
        sources=" ".join(files),
        holds=f"`{files[0]}` holds" if len(files) == 1 else f"`{files[0]}` and the files of fused steps hold",
        count="two" if len(files) == 1 else "source and header",
        call=_call(interface),
        arguments="\n".join(arguments),
    )


def example(interface: Interface, by_step: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the program that calls the function: C++ for CUDA, C otherwise.

    Args:
        interface: The function.
        by_step: For each parameter with a value for each step, its values as C text.
    """
    rows = [
        f'    {{"{a.identifier}", {a.macro}_COUNT * sizeof({a.c_type}), {int(a.is_output)}, 0}},\n'
        for a in interface.arrays
    ]
    return fill(
        "example.cpp" if interface.is_cuda else "example.c",
        **_names(interface),
        values="".join(_step_values(s, (by_step or {})[s.name]) for s in interface.by_step),
        rows="".join(rows),
        count=str(len(interface.arrays)),
        usage=" ".join(f"{a.identifier}.bin" for a in interface.arrays),
        call=_example_call(interface),
    )


def nvcc_flags(fast_math: bool) -> tuple[str, ...]:
    """Return the options of nvcc without architecture and language, as in the library's own compilation."""
    return tuple(flag for flag in NvrtcOptions(fast_math=fast_math).as_flags() if flag != _STANDARD)


def _names(interface: Interface) -> dict[str, str]:
    return {
        "name": interface.name,
        "prefix": interface.prefix,
        "pipeline": interface.pipeline,
        "target": interface.target.name,
    }


def _sources(interface: Interface, sources: Sequence[str]) -> Sequence[str]:
    return sources or [f"{interface.name}.{'cu' if interface.is_cuda else 'c'}"]


def _call(interface: Interface) -> str:
    values = [argument.identifier for argument in interface.arguments]
    values += ["workspace", *(["stream"] if interface.is_cuda else [])]
    return f"{interface.name}({', '.join(values)})"


def _step_values(scalar: InterfaceScalar, values: Sequence[str]) -> str:
    """Return the array of a parameter's values by step; C has no array without elements."""
    return f"static const {scalar.c_type} {scalar.identifier}_by_step[] = {{{', '.join(values or ['0'])}}};\n\n"


def _example_call(interface: Interface) -> str:
    values = [f"({a.pointer})arrays[{k}].memory" for k, a in enumerate(interface.arrays)]
    for s in interface.scalars:
        values.append(f"{s.macro}_DEFAULT" if default_text(s) is not None else f"({s.c_type})1")
    values += [f"{s.identifier}_by_step" for s in interface.by_step]
    values += ["workspace", *(["stream"] if interface.is_cuda else [])]
    joined = ", ".join(values)
    if len(joined) <= 80:
        return f"{interface.name}({joined})"
    return f"{interface.name}(\n        " + ",\n        ".join(values) + ")"
