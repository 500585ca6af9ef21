"""Conflict misses of a core's first-level cache.

Lines whose addresses differ by a multiple of `PERIOD` share one set of the cache, which keeps few of them. This happens
to rows of an array whose length is such a multiple: a kernel that accesses ten rows of 4096 numbers side by side keeps
no line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import gcd

import numpy as np

from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.schedule.cpu_policy import MAX_VECTOR_STEP
from autosched.schedule.types import StageId
from autosched.search.cost.cpu.lane_access_patterns import index_values
from autosched.search.cost.cpu.lane_costs import LaneWorks
from autosched.search.refine.tile_alignment import array_in_memory

CACHE_LINE = 64
PERIOD = 4096
"""Bytes after which the sets of a first-level cache repeat."""
WAYS = {"AuthenticAMD 26": 12, "GenuineIntel 6 amx": 12}
"""Associativity by kind of processor (`autosched.host.Host.processor`): caches of 48 KB."""
USUAL_WAYS = 8
"""Associativity of all other processors, with caches of 32 KB."""
LOST_LOAD, LOST_STORE = 0.25, 2.25
"""Times of a line that is loaded again, and of one of several lines with stores, relative to a missed access: stores
complete in order, loads do not wait for each other."""
MOST_SETS = 8
"""Most sets of an array's rows for which conflicts are counted: over more sets, too few rows collide."""


def associativity(processor: str) -> int:
    """Return the lines per set of the first-level cache of a kind of processor."""
    return WAYS.get(processor, USUAL_WAYS)


def may_conflict(model: SketchFeaturizer) -> bool:
    """Whether rows of some array that a kernel accesses in memory fall on few sets."""
    groups = (g for stage in model.rows for a in [model.accesses_of(stage)] for g in (*a.loads, *a.stores))
    return any(_sets(model, g) <= MOST_SETS for g in groups if _in_memory(model, g))


def conflict_misses(
    model: SketchFeaturizer, works: LaneWorks, stage: StageId, lane: str, dim: str, rows: int, ways: int
) -> float:  # fmt: skip
    """Return the conflict misses of one evaluation of a stage, in missed accesses.

    Arrays are assumed to begin at the same offset of a page, as large ones do.

    Args:
        model: The kernel's sketch.
        works: The costs of its stages.
        stage: The stage.
        lane: The dimension of neighbouring lanes, of the stage or of its host.
        dim: The dimension of neighbouring rows.
        rows: Number of rows of lanes that unroll-and-jam combines.
        ways: Lines of each set.
    """
    access = model.accesses_of(stage)
    loaded, stored = (_rows_by_set(model, works, stage, g, lane, dim, rows) for g in (access.loads, access.stores))
    crowded = [at for at, count in (loaded + stored).items() if count > ways]
    several = sum(stored[at] for at in crowded if stored[at] > 1)
    single = sum(loaded[at] + (stored[at] == 1) for at in crowded)
    return (LOST_LOAD * single + LOST_STORE * several) / rows


def _rows_by_set(
    model: SketchFeaturizer,
    works: LaneWorks,
    stage: StageId,
    groups: Sequence[AccessGroup],
    lane: str,
    dim: str,
    rows: int,
) -> Counter[int]:
    """Return the number of rows of lanes that fall on each set."""
    begins: set[tuple[str, int, int]] = set()
    for group in groups:
        if _in_memory(model, group) and None not in group.rows:
            step = works.step(stage, group, lane)
            if step is not None and 0 < step <= MAX_VECTOR_STEP:
                begins |= {(group.source, group.component, at) for at in _row_offsets(model, works, group, dim, rows)}
    return Counter(at % PERIOD // CACHE_LINE for *_, at in begins)


def _in_memory(model: SketchFeaturizer, group: AccessGroup) -> bool:
    return model.sketch.location(group.source) is None  # inputs have no compute location


def _sets(model: SketchFeaturizer, group: AccessGroup) -> int:
    """Return the number of sets of adjacent rows, the least over an array's dimensions."""
    size, strides, _ = array_in_memory(model.bound, group)
    distances = [s * size for s in strides if s * size >= CACHE_LINE]
    return min((PERIOD // gcd(PERIOD, d) for d in distances), default=PERIOD)


def _row_offsets(model: SketchFeaturizer, works: LaneWorks, group: AccessGroup, dim: str, rows: int) -> set[int]:
    """Return the offsets of the accessed rows, in bytes from a common base."""
    size, strides, _ = array_in_memory(model.bound, group)
    row_strides = np.array(strides, np.int64) * size
    row_strides[works.fastest(group.source)] = 0
    return set(np.ravel(index_values(group, dim, rows) @ row_strides).tolist())
