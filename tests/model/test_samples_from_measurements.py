from __future__ import annotations

from pathlib import Path

import pytest

from autosched.errors import InputError
from autosched.measure.job import Job, KernelRecord, Result, Status, Timing
from autosched.measure.problem import Problem
from autosched.measure.simulated.version import simulated_source
from autosched.measure.store.database import ResultsDatabase
from autosched.model.data.samples_from_measurements import family_of, samples_from
from tests.model.labelled_samples import H200, samples


def store(database: ResultsDatabase, number: int, source: str, generator: str, seconds: float) -> None:
    """Record a time for one of the labelled schedules."""
    s = samples()[number]
    assert isinstance(s.problem, Problem)
    kernels = tuple(KernelRecord(f"{number}-{k}", "text", 40, 8) for k in range(len(s.kernel_seconds)))
    timing = Timing(seconds, 0.01, s.kernel_seconds, (40,) * len(kernels), (8,) * len(kernels))
    database.record(Result(Job(s.problem, s.schedule, H200), source, generator, Status.OK, timing, "", kernels))


@pytest.fixture
def database(tmp_path: Path) -> ResultsDatabase:
    found = ResultsDatabase(tmp_path / "results.sqlite")
    store(found, 0, "simulated:H200", "old", 1.0)
    store(found, 1, "simulated:H200", "new", 2.0)
    store(found, 2, "simulated:H200", "new", 3.0)
    return found


def test_rows_of_the_latest_generator(database: ResultsDatabase) -> None:
    found = samples_from(database, "H200")
    assert [s.seconds for s in found] == [2.0, 3.0]
    for s, given in zip(found, samples()[1:3], strict=True):
        assert (s.schedule, s.family, s.source) == (given.schedule, "random 0", "simulated:H200")
        assert s.kernel_seconds == given.kernel_seconds
        assert set(s.registers) == {40}
        assert set(s.spill_bytes) == {8}
    assert [s.seconds for s in samples_from(database, "H200", generator="old")] == [1.0]


def test_a_source_must_be_chosen_among_several(database: ResultsDatabase) -> None:
    store(database, 3, "measured:H200", "new", 4.0)
    with pytest.raises(InputError, match="labels of measured:H200 and simulated:H200 for H200; choose a source"):
        samples_from(database, "H200")
    assert [s.seconds for s in samples_from(database, "H200", source="measured:H200")] == [4.0]


def test_labels_of_two_versions_of_the_simulated_device_are_not_mixed(database: ResultsDatabase) -> None:
    store(database, 3, simulated_source(H200), "new", 4.0)
    with pytest.raises(InputError, match=r"labels of simulated:H200 and simulated:H200@[0-9a-f]{8} for H200"):
        samples_from(database, "H200")
    assert [s.seconds for s in samples_from(database, "H200", source="simulated:H200")] == [2.0, 3.0]
    assert [s.seconds for s in samples_from(database, "H200", source=simulated_source(H200))] == [4.0]


def test_nothing_to_train_with(database: ResultsDatabase) -> None:
    with pytest.raises(InputError, match=r"results.sqlite has no times for A100; measure some"):
        samples_from(database, "A100")
    with pytest.raises(InputError, match=r"no times from measured:x for H200.*has labels of simulated:H200"):
        samples_from(database, "H200", source="measured:x")


def test_an_app_is_one_family_whatever_its_size() -> None:
    assert family_of(Problem.app("blur", small=True)) == family_of(Problem.app("blur")) == "blur"
    assert family_of(Problem.random(7)) == "random 7"


def test_variants_of_an_app_are_one_family() -> None:
    assert family_of(Problem.app("blur_forma")) == "blur"
    assert family_of(Problem.app("harris_gray")) == family_of(Problem.app("harris")) == "harris"
