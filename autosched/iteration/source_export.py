"""A time loop as C or CUDA source: a function for each version, and the one that takes the number of steps."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autosched.codegen.cuda import CudaKernel
from autosched.export.arguments import INDENT, argument_checks, checking_functions
from autosched.export.c_source import c_source
from autosched.export.cuda_source import cuda_source, print_kernels, without_needless_spills
from autosched.export.directory import write_export
from autosched.export.header import constant_text, header
from autosched.export.interface import ArrayArgument, Interface, InterfaceScalar
from autosched.export.names import ArgumentNames, function_name
from autosched.export.project import cmake_lists, example, readme
from autosched.export.templates import fill
from autosched.export.writer import Exported
from autosched.iteration.field_update import TIMES
from autosched.iteration.protocol import ScheduledSteps
from autosched.iteration.scheduled_version import ScheduledVersion
from autosched.iteration.version_files import to_versions_document
from autosched.lower.program import Program
from autosched.runtime.backends.cuda import alignments
from autosched.runtime.call.buffers import as_scalar
from autosched.runtime.host_memory import ALIGN
from autosched.schedule.io.strict_json import indented
from autosched.schedule.kernel.memory_layout import WORKSPACE_ALIGN


def export_time_loop(
    scheduled: ScheduledSteps,
    directory: str | os.PathLike[str],
    *,
    name: str | None = None,
    fast_math: bool = False,
    any_alignment: bool = False,
) -> Exported:
    """Write a time loop as source code whose function takes the number of steps; see `ScheduledTimeLoop.export`."""
    function = function_name(scheduled.update.name, name)
    versions = tuple(_ExportedVersion.of(v, function, fast_math, any_alignment) for v in scheduled.used)
    loop = _LoopSource(scheduled, function, versions)
    suffix = "cu" if loop.interface.is_cuda else "c"
    sources = [f"{function}.{suffix}", *(f"{v.interface.name}.{suffix}" for v in versions)]
    files = {
        sources[0]: loop.text(),
        **{f"{v.interface.name}.{suffix}": v.text for v in versions},
        **{f"{v.interface.name}.h": header(v.interface) for v in versions},
        f"{function}.h": header(loop.interface),
        f"example.{'cpp' if loop.interface.is_cuda else 'c'}": example(loop.interface, loop.step_values()),
        "CMakeLists.txt": cmake_lists(loop.interface, fast_math=fast_math, sources=sources),
        "README.md": readme(loop.interface, fast_math=fast_math, sources=sources),
        "schedule.json": indented(to_versions_document(scheduled)),
    }
    where = Path(directory)
    return Exported(
        name=function,
        directory=where,
        files=write_export(where, function, files),
        prototype=loop.interface.prototype,
        workspace_bytes=loop.interface.workspace_bytes,
    )


@dataclass(frozen=True)
class _ExportedVersion:
    """A version with its function.

    Attributes:
        version: The version.
        interface: Its function.
        text: Its source file.
    """

    version: ScheduledVersion
    interface: Interface
    text: str

    @classmethod
    def of(cls, version: ScheduledVersion, function: str, fast_math: bool, any_alignment: bool) -> _ExportedVersion:
        """Return a version with its function, which the loop calls."""
        pipeline = version.scheduled
        program: Program = pipeline.program.without_vectors() if any_alignment else pipeline.program
        interface = Interface.of(f"{function}_{version.steps}", program, pipeline.signature, pipeline.target)
        if not interface.is_cuda:
            return cls(version, interface, c_source(interface, program))
        kernels: Sequence[CudaKernel] = without_needless_spills(
            print_kernels(program, interface), pipeline.target.arch, fast_math=fast_math
        )
        interface = interface.with_alignments(alignments(program, kernels))
        return cls(version, interface, cuda_source(interface, program, kernels))


class _LoopSource:
    """The source file of the function that takes the number of steps.

    Args:
        scheduled: The time loop.
        name: Name of the function.
        versions: The versions that it calls.
    """

    def __init__(self, scheduled: ScheduledSteps, name: str, versions: tuple[_ExportedVersion, ...]) -> None:
        self._scheduled, self._versions = scheduled, versions
        self._fields = tuple(scheduled.update.fields)
        self._turns = not any(v.version.unrolled.passed for v in versions)
        self._kinds = {spec.name: k for k, spec in enumerate(scheduled.field_specs)}
        for spec in scheduled.field_specs:
            equal = next(s for s in scheduled.field_specs if (s.dtype, s.shape) == (spec.dtype, spec.shape))
            self._kinds[spec.name] = self._kinds[equal.name]
        align = WORKSPACE_ALIGN if scheduled.target.kind == "cuda" else ALIGN
        self._offsets, self._slot_kinds = [], []
        size = max(-(-v.interface.workspace_bytes // align) * align for v in versions)
        for field in self._slots():
            spec = next(s for s in scheduled.field_specs if s.name == field)
            self._offsets.append(size)
            self._slot_kinds.append(self._kinds[field])
            size += -(-math.prod(spec.shape) * spec.dtype.bytes_ // align) * align
        self.interface = self._interface(name, size, align)

    def _slots(self) -> list[str]:
        """Return the fields whose form the scratch arrays have.

        Where output and scratch take turns, it is one of each field. Otherwise as many values may be alive as there are
        fields and outputs of a version.
        """
        extra = [f for v in self._versions for f in self._unread_outputs(v)]
        if self._turns:
            return [*self._fields, *extra]
        return [*self._fields, *self._fields, *extra]

    def _unread_outputs(self, version: _ExportedVersion) -> list[str]:
        """Return a field of the form of each output that is no field's next value."""
        specs = {(s.dtype, s.shape): s.name for s in self._scheduled.field_specs}
        taken = set(version.version.unrolled.next.values())
        outputs = version.version.scheduled.signature.outputs
        return [specs[o.dtype, o.shape] for o in outputs if o.name not in taken]

    def _interface(self, name: str, workspace_bytes: int, align: int) -> Interface:
        signature, update = self._scheduled.signature, self._scheduled.update
        identifier = ArgumentNames([name, f"{name}_workspace_bytes", *(v.interface.name for v in self._versions)])
        dims = {i.name: i.dims for i in update.inputs}
        outputs = dict(zip(update.output_names, update.fields, strict=True))
        aligned = self._alignments()
        arrays = []
        for spec in (*signature.inputs, *signature.outputs):
            called = identifier(spec.name)
            field = outputs.get(spec.name, spec.name)
            arrays.append(
                ArrayArgument(
                    spec.name,
                    called,
                    f"{name}_{called}".upper(),
                    spec.dtype,
                    spec.shape,
                    dims[field],
                    (0,) * len(spec.shape),
                    spec.name in outputs,
                    max(spec.dtype.bytes_, aligned.get(field, 1)),
                )
            )
        scalars = {p: identifier(p) for p in (*signature.scalars, *signature.by_step)}
        dtypes = {**signature.scalars, **signature.by_step}
        made = [
            InterfaceScalar(p, called, f"{name}_{called}".upper(), dtypes[p], signature.defaults.get(p))
            for p, called in scalars.items()
        ]
        return Interface(
            name=name, pipeline=update.name, target=self._scheduled.target, arrays=tuple(arrays),
            scalars=tuple(s for s in made if s.name not in signature.by_step), fixed=signature.fixed,
            workspace_bytes=workspace_bytes, workspace_alignment=align,
            by_step=tuple(s for s in made if s.name in signature.by_step),
        )  # fmt: skip

    def _alignments(self) -> dict[str, int]:
        """Return the alignment that versions require of each input, which any array of a field may become."""
        required: dict[str, int] = {}
        for v in self._versions:
            for a in v.interface.inputs:
                if a.name not in self._fields:
                    required[a.name] = max(required.get(a.name, 1), a.alignment)
        of_fields = max(
            a.alignment for v in self._versions for a in v.interface.arrays if a.is_output or a.name in self._fields
        )
        return required | dict.fromkeys(self._fields, of_fields)

    def text(self) -> str:
        """Return the file."""
        composition = self._scheduled.composition
        interface = self.interface
        most = max(v.version.steps for v in self._versions)
        sources = {v.version.steps: self._passed(v) for v in self._versions}
        rows = [sources.get(steps, [-1] * len(self._fields)) for steps in range(most + 1)]
        return fill(
            "time_loop.txt",
            name=interface.name,
            prefix=interface.prefix,
            includes="".join(f'#include "{v.interface.name}.h"\n' for v in self._versions),
            fields=str(len(self._fields)),
            slots=str(len(self._offsets)),
            turns=str(int(self._turns)),
            limit=str(composition.limit),
            densest=str(composition.densest),
            first=", ".join(map(str, composition.first)),
            versions=str(most + 1),
            source=", ".join(f"{{{', '.join(map(str, row))}}}" for row in rows),
            offsets=", ".join(f"{n}u" for n in self._offsets),
            slot_kinds=", ".join(map(str, self._slot_kinds)),
            most_written=str(max(len(v.interface.outputs) for v in self._versions)),
            checks=checking_functions(replace(interface, scalars=())),
            linkage='extern "C" ' if interface.is_cuda else "",
            function="\n".join(self._function()),
        )

    def _passed(self, version: _ExportedVersion) -> list[int]:
        """Return, for each field, the number of the field whose value it takes; -1 for a computed value."""
        unrolled = version.version.unrolled
        return [
            self._fields.index(unrolled.next[f]) if f in unrolled.passed else -1 for f in self._fields
        ]  # fmt: skip

    def _function(self) -> list[str]:
        interface = self.interface
        cuda = interface.is_cuda
        success = "cudaSuccess" if cuda else f"{interface.prefix}_SUCCESS"
        invalid = "cudaErrorInvalidValue" if cuda else f"{interface.prefix}_INVALID_ARGUMENT"
        names = interface.identifiers
        times = names[TIMES]
        outputs = ", ".join(a.identifier for a in interface.outputs)
        fields = ", ".join(names[f] for f in self._fields)
        linkage = 'extern "C" ' if cuda else ""
        lines = [f"{linkage}{interface.prototype} {{", *argument_checks(interface, invalid)]
        needed = "".join(f" || ({times} > 0 && !{s.identifier})" for s in interface.by_step)
        lines += [
            f"{INDENT}if ({times} < 0{needed}) return {invalid};",
            f"{INDENT}as_state as_now = {{{{{fields}}}, {{{outputs}}}, {{0}}, 0, (unsigned char *)workspace}};",
            f"{INDENT}int64_t as_runs = 0;",
            f"{INDENT}for (int64_t left = {times}; left > 0; left -= as_next(left)) as_runs++;",
            f"{INDENT}for (int64_t left = {times}; left > 0;) {{",
            f"{INDENT * 2}const int as_steps = as_next(left);",
            *([f"{INDENT * 2}const int64_t as_step = {times} - left;"] if interface.by_step else []),
            f"{INDENT * 2}left -= as_steps;",
            f"{INDENT * 2}as_runs--;",
            f"{INDENT * 2}as_now.count = 0;",
            f"{INDENT * 2}{'cudaError_t' if cuda else 'int'} as_error = {invalid};",
            f"{INDENT * 2}switch (as_steps) {{",
        ]
        for version in self._versions:
            lines += self._case(version)
        lines += [
            f"{INDENT * 2}}}",
            f"{INDENT * 2}if (as_error != {success}) return as_error;",
            f"{INDENT}}}",
            *self._copies(),
            f"{INDENT}return {success};",
            "}",
        ]
        return lines

    def _case(self, version: _ExportedVersion) -> list[str]:
        """Return the run of a version: its arrays, its call, and the fields after it."""
        unrolled = version.version.unrolled
        outputs = [a for a in version.interface.arrays if a.is_output]
        indent = INDENT * 3
        lines = [f"{INDENT * 2}case {unrolled.steps}: {{"]
        arrays: dict[str, str] = {}
        for number, array in enumerate(outputs):
            fields = [k for k, f in enumerate(self._fields) if unrolled.next[f] == array.name]
            mask = sum(1 << k for k in fields)
            kind = self._kinds[self._form(array)]
            arrays[array.name] = f"as_{number}"
            lines.append(f"{indent}void *const as_{number} = as_place(&as_now, left, as_runs, {mask}u, {kind});")
        call = ", ".join(self._values(version, arrays))
        after = [
            arrays[source] if source in arrays else f"as_now.fields[{self._fields.index(source)}]"
            for source in (unrolled.next[f] for f in self._fields)
        ]
        copied = f"{{{', '.join(after)}}}"
        lines += [
            f"{indent}as_error = {version.interface.name}({call});",
            f"{indent}const void *const as_after[AS_FIELDS] = {copied};",
            f"{indent}memcpy(as_now.fields, as_after, sizeof as_after);",
            f"{indent}break;",
            f"{INDENT * 2}}}",
        ]
        return lines

    def _form(self, array: ArrayArgument) -> str:
        """Return a field of an output's type and shape."""
        specs = self._scheduled.field_specs
        return next(s.name for s in specs if (s.dtype, s.shape) == (array.dtype, array.shape))

    def _values(self, version: _ExportedVersion, outputs: Mapping[str, str]) -> list[str]:
        """Return the arguments of a version's function."""
        names = self.interface.identifiers
        steps = {name: (param, number) for name, param, number in version.version.unrolled.by_step}
        values = []
        for a in version.interface.arrays:
            if a.is_output:
                values.append(f"({a.pointer}){outputs[a.name]}")
            elif a.name in self._fields:
                values.append(f"({a.pointer})as_now.fields[{self._fields.index(a.name)}]")
            else:
                values.append(names[a.name])
        for s in version.interface.scalars:
            if s.name in steps:
                param, number = steps[s.name]
                values.append(f"{names[param]}[as_step + {number}]")
            else:
                values.append(names[s.name])
        return [*values, "workspace", *(["stream"] if self.interface.is_cuda else [])]

    def _copies(self) -> list[str]:
        """Return the copies of fields that no run has written to their outputs."""
        lines = []
        for k, a in enumerate(self.interface.outputs):
            copy = f"memcpy({a.identifier}, as_now.fields[{k}], {a.bytes_}u);"
            if self.interface.is_cuda:
                copy = (
                    f"{{\n{INDENT * 2}const cudaError_t as_error = cudaMemcpyAsync(\n{INDENT * 3}{a.identifier}, "
                    f"as_now.fields[{k}], {a.bytes_}u, cudaMemcpyDeviceToDevice, stream);\n"
                    f"{INDENT * 2}if (as_error != cudaSuccess) return as_error;\n{INDENT}}}"
                )
            lines.append(f"{INDENT}if (as_now.fields[{k}] != {a.identifier}) {copy}")
        return lines

    def step_values(self) -> dict[str, list[str]]:
        """Return the values by step of a call with the default number of steps, as C text."""
        signature = self._scheduled.signature
        times = int(signature.defaults[TIMES])
        values: dict[str, list[str]] = {}
        for name, dtype in signature.by_step.items():
            given = signature.step_values.get(name)
            numbers = [0] * times if given is None else signature.values_of(name, given, times)
            values[name] = [constant_text(as_scalar(number, name, dtype), dtype) or "0" for number in numbers]
        return values
