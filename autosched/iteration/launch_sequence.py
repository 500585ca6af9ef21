"""Launches of a call: which version runs when, on which arrays.

The first launch reads the caller's arrays, the last one writes the outputs. Between them two arrays of a field take
turns, the output and a scratch array, so that the caller's arrays are never overwritten. Where fields take each other's
values (time levels), each value has a scratch array for as long as it is a field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from autosched.iteration.step_unrolling import UnrolledSteps
from autosched.runtime.call.signature import ArraySpec


class ArrayPlace(NamedTuple):
    """The array of a value: the caller's input or output by name, or a scratch array by number."""

    kind: Literal["input", "output", "scratch"]
    name: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class VersionLaunch:
    """One run of a version.

    Attributes:
        steps: The version.
        step: Number of its first step.
        reads: Array of each field.
        writes: Array of each output of the version.
    """

    steps: int
    step: int
    reads: Mapping[str, ArrayPlace]
    writes: Mapping[str, ArrayPlace]


@dataclass(frozen=True, slots=True)
class IterationLaunches:
    """All launches of a call.

    Attributes:
        launches: The runs of versions, in order.
        copies: Arrays that are copied to outputs at the end: all of them for no steps.
        scratch: The scratch arrays.
    """

    launches: tuple[VersionLaunch, ...]
    copies: tuple[tuple[ArrayPlace, ArrayPlace], ...]
    scratch: tuple[ArraySpec, ...]


def plan_launches(
    versions: Mapping[int, UnrolledSteps],
    sequence: Sequence[int],
    fields: Sequence[ArraySpec],
    outputs: Sequence[str],
    written: Mapping[int, Sequence[ArraySpec]],
) -> IterationLaunches:
    """Return the launches of a sequence of versions.

    Args:
        versions: The versions by their number of steps.
        sequence: Steps of each version, in order.
        fields: Array of each field.
        outputs: Output of each field.
        written: Output arrays of each version.
    """
    planner = _Planner(versions, sequence, fields, outputs)
    launches = []
    step = 0
    for number, steps in enumerate(sequence):
        launches.append(planner.launch(number, step, {s.name: s for s in written[steps]}))
        step += steps
    copies = tuple((place, planner.outputs[f]) for f, place in planner.state.items() if place != planner.outputs[f])
    return IterationLaunches(tuple(launches), copies, tuple(planner.scratch))


class _Planner:
    def __init__(
        self,
        versions: Mapping[int, UnrolledSteps],
        sequence: Sequence[int],
        fields: Sequence[ArraySpec],
        outputs: Sequence[str],
    ) -> None:
        self._versions = versions
        self._sequence = sequence
        self._specs = {spec.name: spec for spec in fields}
        self._alternates = not any(versions[x].passed for x in sequence)
        self.outputs = {s.name: ArrayPlace("output", name) for s, name in zip(fields, outputs, strict=True)}
        self.state = {s.name: ArrayPlace("input", s.name) for s in fields}
        self.scratch: list[ArraySpec] = []
        self._turns: dict[str, ArrayPlace] = {}

    def launch(self, number: int, step: int, written: Mapping[str, ArraySpec]) -> VersionLaunch:
        """Return one launch, and assign its outputs to the fields."""
        version = self._versions[self._sequence[number]]
        reads = dict(self.state)
        writes: dict[str, ArrayPlace] = {}
        for name, spec in written.items():
            fields = [field for field, source in version.next.items() if source == name]
            writes[name] = self._place(number, fields, spec, [*reads.values(), *writes.values()])
        self.state = {
            field: writes[source] if source in writes else reads[source] for field, source in version.next.items()
        }
        return VersionLaunch(version.steps, step, reads, writes)

    def _place(self, number: int, fields: list[str], spec: ArraySpec, live: Sequence[ArrayPlace]) -> ArrayPlace:
        """Return the array for a value of some fields."""
        last = self._last_fields(number, fields)
        if last:
            return self.outputs[last[0]]
        if self._alternates and fields:
            left = len(self._sequence) - number
            if left % 2:
                return self.outputs[fields[0]]
            if fields[0] not in self._turns:
                self._turns[fields[0]] = self._new(spec)
            return self._turns[fields[0]]
        for k, other in enumerate(self.scratch):
            place = ArrayPlace("scratch", "", k)
            if (other.dtype, other.shape) == (spec.dtype, spec.shape) and place not in live:
                return place
        return self._new(spec)

    def _last_fields(self, number: int, fields: list[str]) -> list[str]:
        """Return the fields that have a value of some fields after the last launch."""
        # by index: a slice of the rest for each launch is quadratic in the number of steps
        for later in range(number + 1, len(self._sequence)):
            if not fields:
                break
            following = self._versions[self._sequence[later]].next
            fields = [field for field, source in following.items() if source in fields]
        return fields

    def _new(self, spec: ArraySpec) -> ArrayPlace:
        self.scratch.append(spec)
        return ArrayPlace("scratch", "", len(self.scratch) - 1)
