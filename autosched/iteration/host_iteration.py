"""Run a time loop on arrays in host memory: in C, in the emulator or in the interpreter."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autosched.iteration.field_update import TIMES
from autosched.iteration.launch_sequence import ArrayPlace, IterationLaunches, VersionLaunch
from autosched.iteration.step_unrolling import UnrolledSteps
from autosched.iteration.time_loop_signature import step_scalar
from autosched.runtime.call.signature import ArraySpec, CallSignature
from autosched.runtime.host_memory import aligned_empty

Array = np.ndarray[Any, Any]
VersionRun = Callable[[Mapping[str, Array], Mapping[str, Array], Mapping[str, Any]], None]
"""Computes a version's outputs in place, from its inputs, outputs and scalars by name."""


class HostIteration:
    """A time loop whose versions compute in host memory; scratch arrays are kept by thread.

    Args:
        versions: The versions by their number of steps.
        signatures: Signature of each version.
        runs: Function of each version.
        plan: Returns the launches of a number of steps.
    """

    def __init__(
        self,
        versions: Mapping[int, UnrolledSteps],
        signatures: Mapping[int, CallSignature],
        runs: Mapping[int, VersionRun],
        plan: Callable[[int], IterationLaunches],
    ) -> None:
        self._versions, self._signatures, self._runs = versions, signatures, runs
        self._plan = plan
        self._scratch = threading.local()

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], scalars: Mapping[str, Any]) -> None:
        """Compute the outputs in place.

        Args:
            inputs: Checked arrays by name.
            outputs: Arrays to fill, by name.
            scalars: Values of parameters, of parameters by step, and the number of steps.
        """
        launches = self._plan(int(scalars[TIMES]))
        scratch = self._scratch_arrays(launches.scratch)

        def array(place: ArrayPlace) -> Array:
            if place.kind == "scratch":
                return scratch[place.number]
            return (inputs if place.kind == "input" else outputs)[place.name]

        for launch in launches.launches:
            self._run_version(launch, inputs, array, scalars)
        for source, target in launches.copies:
            np.copyto(array(target), array(source))

    def _run_version(
        self,
        launch: VersionLaunch,
        inputs: Mapping[str, Array],
        array: Callable[[ArrayPlace], Array],
        scalars: Mapping[str, Any],
    ) -> None:
        signature = self._signatures[launch.steps]
        fields = {name: array(place) for name, place in launch.reads.items()}
        reads = {s.name: fields[s.name] if s.name in fields else inputs[s.name] for s in signature.inputs}
        writes = {name: array(place) for name, place in launch.writes.items()}
        own = own_scalars(self._versions[launch.steps], launch.step)
        values = {name: scalars[own.get(name, name)] for name in signature.scalars}
        self._runs[launch.steps](reads, writes, values)

    def _scratch_arrays(self, specs: tuple[ArraySpec, ...]) -> list[Array]:
        """Return this thread's scratch arrays: fresh pages cost more than a small kernel."""
        kept: OrderedDict[tuple[int, Any, tuple[int, ...]], Array] | None = getattr(self._scratch, "arrays", None)
        if kept is None:
            kept = self._scratch.arrays = OrderedDict()
        arrays = []
        for number, spec in enumerate(specs):
            key = number, spec.dtype, spec.shape
            if key not in kept:
                size = int(np.prod(spec.shape, dtype=np.int64)) * spec.dtype.bytes_
                kept[key] = aligned_empty(size).view(spec.dtype.numpy).reshape(spec.shape)
            arrays.append(kept[key])
        return arrays


def own_scalars(version: UnrolledSteps, step: int) -> dict[str, str]:
    """Return the name of the call's scalar for each parameter by step of a version that begins at a step."""
    return {name: step_scalar(param, step + offset) for name, param, offset in version.by_step}
