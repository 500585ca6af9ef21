"""Compile a region for given sizes, and call it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

import autosched
from autosched.codegen.c import ENTRY
from autosched.errors import InputError, MeasureError
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.runtime.compile.host_compiler import find_compiler
from autosched.torch.host_code import HostCode, plain_copy
from autosched.torch.host_plan import HostPlan, Kind, ResultForm
from autosched.torch.options import Options
from autosched.torch.translation import TensorSlot, Translation, translate


class RegionCode:
    """A compiled region on a GPU, or on any backend.

    Args:
        translation: The pipeline with its inputs and outputs.
        compiled: The compiled pipeline; None if it has no output.
        device: Device of its results.
    """

    def __init__(self, translation: Translation, compiled: CompiledPipeline | None, device: torch.device) -> None:
        self.translation = translation
        self.compiled = compiled
        self.device = device
        self._constants = _constants_on(device, translation.constants)

    def __call__(self, *arguments: Any) -> Any:
        """Compute the region for tensors of the sizes and strides that it was compiled for.

        Raises:
            IndexError: If an index is out of range; other checks raise their errors.
        """
        translation = self.translation
        outputs = [self._made(slot) if isinstance(slot, TensorSlot) else slot for slot in translation.outputs]
        if self.compiled is None:
            return self._returned(outputs)
        arrays: dict[str, torch.Tensor] = dict(self._constants)
        for slot, argument in zip(translation.inputs, arguments, strict=True):
            if slot is not None and slot.name is not None:
                plain = argument.detach()
                if plain.device != self.device:
                    plain = _number_on(self.device, plain)
                arrays[slot.name] = slot.layout.array(plain_copy(plain) if plain.is_neg() else plain)
        out = {
            slot.name: slot.layout.array(tensor)
            for slot, tensor in zip(translation.outputs, outputs, strict=True)
            if isinstance(slot, TensorSlot) and slot.name is not None and isinstance(tensor, torch.Tensor)
        }
        flags = torch.empty(len(translation.checks), dtype=torch.uint8, device=self.device)
        out |= dict(zip(translation.checks, flags.unbind(), strict=True))
        self.compiled.launch(None, arrays, out=out)
        if translation.checks:
            self._check(flags)
        return self._returned(outputs)

    def _check(self, flags: torch.Tensor) -> None:
        """Raise the error of the first flag that is set; a graph in capture gets assertions of the device instead."""
        checks = self.translation.checks.values()
        if _is_capturing(self.device):
            for flag, (_, text) in zip(flags.unbind(), checks, strict=True):
                torch._assert_async(flag == 0, text)
            return
        for flag, (error, text) in zip(flags.tolist(), checks, strict=True):
            if flag:
                raise error(text)

    def _returned(self, outputs: list[Any]) -> Any:
        return tuple(outputs) if self.translation.is_tuple else outputs[0]

    def _made(self, slot: TensorSlot) -> torch.Tensor:
        return torch.empty_strided(slot.shape, slot.strides, dtype=slot.dtype, device=self.device)


def _constants_on(device: torch.device, constants: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return constants on a device, complete for every stream: calls may come from another one."""
    moved = {name: tensor.to(device) for name, tensor in constants.items()}
    if moved and device.type == "cuda" and not _is_capturing(device):
        torch.cuda.current_stream(device).synchronize()
    return moved


def _number_on(device: torch.device, number: torch.Tensor) -> torch.Tensor:
    """Return a number of host memory on a GPU, where PyTorch allows it beside other tensors.

    A fill has it as an argument: a copy would wait for the stream, and no graph could capture it.
    """
    return torch.full((), number.item(), dtype=number.dtype, device=device)


def _is_capturing(device: torch.device) -> bool:
    """Whether the current stream of a device is captured."""
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def compile_region(graph: GraphModule, arguments: Sequence[Any], options: Options) -> HostCode | RegionCode:
    """Return the code of a region for the sizes, strides and types of some arguments.

    Raises:
        UnsupportedError: If an operator has no translation in this form.
        CompileError: If there is no C compiler for a region on the CPU.
        AutoschedError: If the pipeline cannot be scheduled or compiled.
    """
    translation = translate(graph, arguments)
    device = translation.device or device_of(arguments)
    is_host = device.type == "cpu"
    if is_host:
        find_compiler("c")  # before the search
    if translation.pipeline is None:
        return HostCode(plan_of(translation, None)) if is_host else RegionCode(translation, None, device)
    shapes = {slot.name: slot.layout.shape for slot in translation.inputs if slot is not None and slot.name is not None}
    shapes |= {name: tuple(tensor.shape) for name, tensor in translation.constants.items()}
    if not is_host:
        scheduled = scheduled_pipeline(translation, shapes, autosched.Target.detect(device.index), options)
        return RegionCode(translation, scheduled.compile("cuda"), device)
    compiled = scheduled_pipeline(translation, shapes, "cpu", options).compile()
    if compiled.code is not None:
        return HostCode(plan_of(translation, compiled.code))
    return RegionCode(translation, compiled, device)


def device_of(arguments: Sequence[Any]) -> torch.device:
    """Return the device of a region's tensors."""
    devices = {a.device for a in arguments if isinstance(a, torch.Tensor) and a.ndim}
    if len(devices) > 1:
        raise InputError(f"a region has tensors on {', '.join(sorted(map(str, devices)))}: copy them to one device")
    first = (a.device for a in arguments if isinstance(a, torch.Tensor))
    return next(iter(devices), next(first, torch.device("cpu")))


def scheduled_pipeline(
    translation: Translation, shapes: Mapping[str, tuple[int, ...]], target: str | autosched.Target, options: Options
) -> autosched.ScheduledPipeline:
    """Return the schedule that the options ask for."""
    pipeline = translation.pipeline
    assert pipeline is not None
    if options.mode == "autotune":
        database = None if options.database is None else database_of_region(options.database, pipeline.hash, shapes)
        resume = database is not None and database.exists()
        try:
            return autosched.autotune(
                pipeline, shapes, target, seconds=options.seconds, database=database, resume=resume
            )
        except MeasureError:  # no time for a measurement: the schedule with the best prediction follows
            pass
    return autosched.schedule(
        pipeline,
        shapes,
        target,
        strategy=options.strategy,
        effort=options.effort,
        top_k=5 if options.mode == "top5" else 1,
        cost=options.cost,
        seconds=options.seconds,
    )


def database_of_region(database: str, pipeline: str, shapes: Mapping[str, tuple[int, ...]]) -> Path:
    """Return the file of a region's results, beside the file of the options: each pipeline has one of its own.

    Args:
        database: The file of the options.
        pipeline: Hash of the pipeline.
        shapes: Shapes of its inputs.
    """
    path = Path(database)
    digest = hashlib.sha256(f"{pipeline} {sorted(shapes.items())}".encode()).hexdigest()[:12]
    return path.with_name(f"{path.stem}-{digest}{path.suffix}")


def plan_of(translation: Translation, executable: CpuExecutable | None) -> HostPlan:
    """Return the plan of a translated region and its code, which is None if no result has an element."""
    places: dict[str, tuple[Kind, int]] = {}
    sizes: dict[str, int] = {}
    alignments: dict[int, int] = {}
    for k, slot in enumerate(translation.inputs):
        if slot is not None and slot.name is not None:
            places[slot.name] = "argument", k
            alignments[k] = slot.dtype.itemsize
            sizes[slot.name] = math.prod(slot.layout.shape)
    for k, result in enumerate(translation.outputs):
        if isinstance(result, TensorSlot) and result.name is not None:
            places[result.name] = "result", k
            sizes[result.name] = math.prod(result.shape)
    for k, name in enumerate(translation.constants):
        places[name] = "constant", k
    for k, name in enumerate(translation.checks):
        places[name] = "check", k
    arrays = executable.arrays if executable is not None else ()
    workspace = executable.program.workspace_bytes if executable is not None else 0
    return HostPlan(
        entry=ENTRY if executable is None else executable.source.entry,
        library=None if executable is None else executable.library,
        addresses=tuple(places[read or written or ""] if read or written else ("workspace", offset)
                        for read, written, offset in arrays),
        alignments=alignments,
        results=tuple(ResultForm(r.shape, r.strides, r.dtype) if isinstance(r, TensorSlot) else r
                      for r in translation.outputs),
        is_tuple=translation.is_tuple,
        constants=tuple(translation.constants.values()),
        checks=tuple(translation.checks.values()),
        workspace_bytes=workspace,
        elements=sum(sizes.values()) + workspace // 4,
    )  # fmt: skip
