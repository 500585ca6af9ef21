"""Candidates of fission: the best schedule of each version of a pipeline by what its kernels return.

Artemis (section VI-B) writes such versions as files of its language, for users to optimise. Here they are schedules,
which hold the rewrites, so each file runs as it is and can be tuned further.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import Schedule
from autosched.search.cost.protocol import CostModel
from autosched.search.rewrites.output_fission import FissionVersion, fission_versions, shared_producers
from autosched.search.rewrites.portfolio import RewriteSearch, search_portfolio
from autosched.search.settings import SearchSettings
from autosched.search.space.effort import affordable
from autosched.search.tune.spill_filter import SpillTable, without_spills
from autosched.search.tune.spill_repair import with_repaired
from autosched.target import Target

RANKED = 8
"""Schedules of a version that are compiled until one does not spill."""


@dataclass(frozen=True)
class FissionCandidate:
    """A version of a pipeline with its best schedule.

    Attributes:
        name: Name of the version.
        schedule: Its best schedule.
        seconds: Predicted seconds.
        spill_bytes: Bytes that each kernel spills a thread; empty for a CPU, and without a compiler.
    """

    name: str
    schedule: Schedule
    seconds: float
    spill_bytes: tuple[int, ...]


@dataclass(frozen=True)
class FissionCandidates:
    """All candidates, and the versions without one.

    Attributes:
        found: The candidates.
        refused: Names of versions without a legal schedule, such as twelve sweeps in one kernel.
    """

    found: tuple[FissionCandidate, ...]
    refused: tuple[str, ...]


def fission_candidates(
    bound: BoundPipeline, target: Target, model: CostModel, settings: SearchSettings, *, seed: int = 0,
    seconds: float | None = None,
) -> FissionCandidates:  # fmt: skip
    """Return a schedule of each version in `autosched.search.rewrites.output_fission`.

    Args:
        bound: The pipeline, without rewrites.
        target: The device.
        model: Cost model.
        settings: Settings of the searches; Funcs at root are those of the version.
        seed: Seed of random choices.
        seconds: Time budget, in equal shares for the versions.
    """
    started = time.perf_counter()
    versions = fission_versions(bound)
    found: list[FissionCandidate] = []
    for k, version in enumerate(versions):
        used = time.perf_counter() - started
        share = None if seconds is None else max(seconds - used, 0.0) / (len(versions) - k)
        found += _candidates(version, target, model, settings, seed, share)
    names = {c.name for c in found}
    return FissionCandidates(tuple(found), tuple(v.name for v in versions if v.name not in names))


def _candidates(
    version: FissionVersion, target: Target, model: CostModel, settings: SearchSettings, seed: int,
    seconds: float | None,
) -> Iterable[FissionCandidate]:  # fmt: skip
    """Yield the best schedule of a version, if the search has one.

    Where kernels that recompute shared producers have too much code, these producers have kernels of their own.
    """
    given = replace(affordable(settings, version.bound), materialise=False, baseline_tolerance=0.0)
    shared = shared_producers(version.bound, version.roots)
    for roots in (version.roots, (*version.roots, *shared)) if shared else (version.roots,):
        search = RewriteSearch(version.bound, target, model, replace(given, kernel_roots=roots), seed)
        (result,) = search_portfolio([search], seconds, RANKED)
        ranked = [r for r in result.ranked if not math.isnan(r.seconds) and _has_roots(r.schedule, roots)]
        if ranked:
            table = SpillTable(version.bound.root_pipeline, target)
            best = without_spills(with_repaired(ranked, table), table).kept[0]
            spills = table.of(best.schedule) if table.is_compiled(best.schedule) else ()
            yield FissionCandidate(version.name, best.schedule, best.seconds, spills)
            return


def _has_roots(schedule: Schedule, roots: Iterable[str]) -> bool:
    """Whether the kernels are those of a version; sliding windows may have moved a Func into another kernel."""
    return {name for kernel in schedule.kernels for name in kernel.root_funcs} == {*roots}
