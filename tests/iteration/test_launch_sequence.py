"""Arrays of a call: no value is overwritten while it is read, and two arrays of a field take turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autosched import TimeLoop
from autosched.iteration.launch_sequence import ArrayPlace, IterationLaunches, plan_launches
from autosched.runtime.call.signature import ArraySpec
from tests.iteration.steps import STEPS, diffusion, leapfrog

SHAPE = (13, 21)


def planned(iteration: TimeLoop, sequence: tuple[int, ...]) -> IterationLaunches:
    versions = {x: iteration.unrolled(x) for x in set(sequence)}
    specs = [ArraySpec(i.name, i.dtype, SHAPE) for i in iteration.inputs if i.name in iteration.fields]
    written = {x: [ArraySpec(n, specs[0].dtype, SHAPE) for n in v.pipeline.output_names] for x, v in versions.items()}
    return plan_launches(versions, sequence, specs, iteration.output_names, written)


def computed(iteration: TimeLoop, launches: IterationLaunches) -> Mapping[ArrayPlace, object]:
    """Return the symbolic content of every array after the launches, where a value is the tree that computes it."""
    memory: dict[ArrayPlace, object] = {ArrayPlace("input", name): name for name in iteration.fields}
    for launch in launches.launches:
        assert not set(launch.reads.values()) & set(launch.writes.values()), "an array is read and written"
        assert all(place.kind != "input" for place in launch.writes.values())
        assert len(set(launch.writes.values())) == len(launch.writes)
        state: dict[str, object] = {field: memory[place] for field, place in launch.reads.items()}
        for number in range(launch.steps):
            values = tuple(state.values())
            state = {
                field: state[source] if source in state else (source, launch.step + number, values)
                for field, source in iteration.fields.items()
            }
        version = iteration.unrolled(launch.steps)
        for field, source in version.next.items():
            if source in launch.writes:
                memory[launch.writes[source]] = state[field]
    for source, target in launches.copies:
        memory[target] = memory[source]
    return memory


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("sequence", [(), (1,), (2,), (1, 1), (2, 1), (1, 2, 1, 3), (3, 3, 1), (1,) * 9, (2,) * 6])
def test_outputs_have_the_values_of_single_steps(name: str, sequence: tuple[int, ...]) -> None:
    iteration = STEPS[name]()
    single = computed(iteration, planned(iteration, (1,) * sum(sequence)))
    memory = computed(iteration, planned(iteration, sequence))
    for field, output in zip(iteration.fields, iteration.output_names, strict=True):
        place = ArrayPlace("output", output)
        assert memory[place] == single[place], field


def test_two_arrays_take_turns() -> None:
    launches = planned(diffusion(), (1,) * 5)
    (scratch,) = launches.scratch
    assert scratch.shape == SHAPE
    places = [launch.writes["after"] for launch in launches.launches]
    output, turn = ArrayPlace("output", "after"), ArrayPlace("scratch", "", 0)
    assert places == [output, turn, output, turn, output]
    assert not launches.copies


def test_time_levels_need_no_copy_after_a_step() -> None:
    launches = planned(leapfrog(), (1,) * 6)
    assert not launches.copies
    assert len(launches.scratch) <= 3
    assert [s.name for s in planned(leapfrog(), (1,)).scratch] == []
    assert planned(leapfrog(), (1,)).copies == ((ArrayPlace("input", "now"), ArrayPlace("output", "before_next")),)


def test_no_steps_are_copies() -> None:
    launches = planned(leapfrog(), ())
    assert not launches.launches
    assert [target.name for _, target in launches.copies] == ["after", "before_next"]


class _CountedReads(tuple[int, ...]):
    """A sequence that counts the items that it returns, those of slices included."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        _CountedReads.reads += len(value) if isinstance(key, slice) else 1
        return value


@pytest.mark.parametrize("name", STEPS)
def test_work_is_linear_in_the_number_of_steps(name: str) -> None:
    reads = []
    for steps in (100, 200):
        _CountedReads.reads = 0
        planned(STEPS[name](), _CountedReads((1,) * steps))
        reads.append(_CountedReads.reads)
    assert reads[1] <= 2.1 * reads[0]
