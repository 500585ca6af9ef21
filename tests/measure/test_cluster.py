"""Measuring over a Ray cluster of two workers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import InputError, MeasureError
from autosched.measure.job import Status
from autosched.measure.measurer import Measurer
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.workers.cluster import RayPool
from tests.measure.faulty_backend import OTHER, PROBLEM, FaultyBackend, baseline, job, notes

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

SETTINGS = MeasureSettings(compile_processes=1)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            found.add_node(num_cpus=1)
        ray.init(address=found.address, log_to_driver=False)
        yield
        ray.shutdown()
        found.shutdown()


def measurer(tmp_path: Path, database: Any = None, **options: Any) -> Measurer:
    pool = partial(RayPool, machines=2)
    return Measurer(FaultyBackend(str(tmp_path), **options), baseline, database, SETTINGS, pool=pool)


def test_two_machines_share_the_problems(tmp_path: Path) -> None:
    jobs = [job("", n, problem) for n in range(4) for problem in (PROBLEM, OTHER)] + [job("refused"), job("wrong")]
    with ResultsDatabase(tmp_path / "results.sqlite") as database:
        found = measurer(tmp_path, database)
        results = list(found.run(jobs))
        assert found.summary.counts == {Status.OK: 10, Status.COMPILE: 1, Status.WRONG_RESULT: 1}
        assert len(list(database.rows(status=None))) == len(results) == 12
    timed = {line.split()[-1] for line in notes(tmp_path) if line.startswith("end timed")}
    assert len(timed) == 2, "each machine has a measuring process"


def test_what_a_lost_machine_was_at_is_done_by_another(tmp_path: Path) -> None:
    found = measurer(tmp_path, seconds=0.05)
    pools: list[RayPool] = []

    def pool(*arguments: Any) -> RayPool:
        pools.append(RayPool(*arguments, machines=2))
        return pools[0]

    found._make_pool = pool
    jobs = [job("", n, problem) for n in range(8) for problem in (PROBLEM, OTHER)]
    run = found.run(jobs)
    first = next(run)
    ray.kill(pools[0]._link_of[first.job.problem].actor)
    results = [first, *run]
    assert len(results) == len({(r.job.problem, r.job.schedule) for r in results}) == 18
    assert {r.status for r in results} == {Status.OK}


def test_a_machine_with_another_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="another device"):
        list(measurer(tmp_path, elsewhere=True).run([job()]))


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="at least 1"):
        RayPool(FaultyBackend(str(tmp_path)), SETTINGS, machines=0)
    monkeypatch.setattr("autosched.measure.workers.cluster._START_S", 0.5)
    with (
        pytest.raises(MeasureError, match="no 3 machines of the cluster"),
        RayPool(FaultyBackend(str(tmp_path)), SETTINGS, machines=3, resources={"num_cpus": 1}),
    ):
        pass
