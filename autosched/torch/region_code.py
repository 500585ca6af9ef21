"""Compile a region for given sizes, and call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

import autosched
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.torch.options import Options
from autosched.torch.translation import TensorSlot, Translation, translate


class RegionCode:
    """A translated region with its compiled pipeline.

    Args:
        translation: The pipeline with its inputs and outputs.
        compiled: The compiled pipeline; None if it has no output.
        device: Device of its results.
    """

    def __init__(self, translation: Translation, compiled: CompiledPipeline | None, device: torch.device) -> None:
        self.translation = translation
        self.compiled = compiled
        self.device = device

    def __call__(self, *arguments: Any) -> Any:
        """Compute the region for tensors of the sizes and strides that it was compiled for.

        Raises:
            IndexError: If an index is out of range.
        """
        translation = self.translation
        outputs = [self._made(slot) if isinstance(slot, TensorSlot) else slot for slot in translation.outputs]
        if self.compiled is None:
            return self._returned(outputs)
        arrays: dict[str, torch.Tensor] = dict(translation.constants)
        for slot, argument in zip(translation.inputs, arguments, strict=True):
            if slot is not None and slot.name is not None:
                arrays[slot.name] = slot.layout.array(argument.detach())
        out = {
            slot.name: slot.layout.array(tensor)
            for slot, tensor in zip(translation.outputs, outputs, strict=True)
            if isinstance(slot, TensorSlot) and slot.name is not None and isinstance(tensor, torch.Tensor)
        }
        for name in translation.checks:
            out[name] = torch.empty((), dtype=torch.uint8, device=self.device)
        self.compiled.launch(None, arrays, out=out)
        for name, (error, text) in translation.checks.items():
            if out[name].item():
                raise error(text)
        return self._returned(outputs)

    def _returned(self, outputs: list[Any]) -> Any:
        return tuple(outputs) if self.translation.is_tuple else outputs[0]

    def _made(self, slot: TensorSlot) -> torch.Tensor:
        return torch.empty_strided(slot.shape, slot.strides, dtype=slot.dtype, device=self.device)


def compile_region(graph: GraphModule, arguments: Sequence[Any], options: Options) -> RegionCode:
    """Return the code of a region for the sizes, strides and types of some arguments.

    Raises:
        UnsupportedError: If an operator has no translation in this form.
        AutoschedError: If the pipeline cannot be scheduled or compiled.
    """
    translation = translate(graph, arguments)
    device = next((a.device for a in arguments if isinstance(a, torch.Tensor)), torch.device("cpu"))
    if translation.pipeline is None:
        return RegionCode(translation, None, device)
    shapes = {slot.name: slot.layout.shape for slot in translation.inputs if slot is not None and slot.name is not None}
    shapes |= {name: tuple(tensor.shape) for name, tensor in translation.constants.items()}
    target = "cuda" if device.type == "cuda" else "cpu"
    scheduled = scheduled_pipeline(translation, shapes, target, options)
    return RegionCode(translation, scheduled.compile(), device)


def scheduled_pipeline(
    translation: Translation, shapes: dict[str, tuple[int, ...]], target: str, options: Options
) -> autosched.ScheduledPipeline:
    """Return the schedule that the options ask for."""
    pipeline = translation.pipeline
    assert pipeline is not None
    if options.mode == "autotune":
        return autosched.autotune(pipeline, shapes, target, seconds=options.seconds, database=options.database)
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
