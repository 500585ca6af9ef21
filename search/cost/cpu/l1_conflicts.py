"""Lines that a core's first-level cache cannot keep beside each other, however small they are together.

Lines whose addresses differ by a multiple of `PERIOD` share one of the cache's sets, which keeps few of them. Rows of
an array lie so where each takes a multiple of that: of ten rows of 4096 numbers that a kernel walks side by side, no
line stays.
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
"""Bytes after which the sets of a first-level cache come round again."""
WAYS = {"AuthenticAMD 26": 12, "GenuineIntel 6 amx": 12}
"""Lines of each set, by kind of processor (`autosched.host.Host.processor`): those with 48 KB."""
USUAL_WAYS = 8
"""Lines of each set of the others, which have 32 KB."""
LOST_LOAD, LOST_STORE = 0.25, 2.25
"""Times of a line that is loaded again, and of one of several that are stored to side by side, over an access that is
missed: stores end one after the other, loads do not wait for each other."""
MOST_SETS = 8
"""Sets on which an array's rows fall: where they fall on more, too few of those that are walked meet."""


def associativity(processor: str) -> int:
    """Return how many lines a set of a kind of processor's first-level cache keeps."""
    return WAYS.get(processor, USUAL_WAYS)


def may_conflict(model: SketchFeaturizer) -> bool:
    """Whether rows of some array that a kernel accesses in memory fall on few sets."""
    groups = (g for stage in model.rows for a in [model.accesses_of(stage)] for g in (*a.loads, *a.stores))
    return any(_sets(model, g) <= MOST_SETS for g in groups if _in_memory(model, g))


def conflict_misses(
    model: SketchFeaturizer, works: LaneWorks, stage: StageId, lane: str, dim: str, rows: int, ways: int
) -> float:  # fmt: skip
    """Return what an evaluation of a stage waits for lines that the first-level cache has lost, in missed accesses.

    Arrays are taken to begin at equal places of a page, as large ones do.

    Args:
        model: The kernel's structure.
        works: The work of its stages.
        stage: The stage.
        lane: The dimension that neighbouring lanes walk, of the stage or of the one in whose threads it is.
        dim: The dimension that neighbouring rows walk.
        rows: How many rows of lanes are taken together.
        ways: Lines of each set.
    """
    access = model.accesses_of(stage)
    loaded, stored = (_sets_walked(model, works, stage, g, lane, dim, rows) for g in (access.loads, access.stores))
    crowded = [at for at, count in (loaded + stored).items() if count > ways]
    several = sum(stored[at] for at in crowded if stored[at] > 1)
    others = sum(loaded[at] + (stored[at] == 1) for at in crowded)
    return (LOST_LOAD * others + LOST_STORE * several) / rows


def _sets_walked(
    model: SketchFeaturizer,
    works: LaneWorks,
    stage: StageId,
    groups: Sequence[AccessGroup],
    lane: str,
    dim: str,
    rows: int,
) -> Counter[int]:
    """Return how many rows that lanes walk fall on each set."""
    walked: set[tuple[str, int, int]] = set()
    for group in groups:
        if _in_memory(model, group) and None not in group.rows:
            step = works.step(stage, group, lane)
            if step is not None and 0 < step <= MAX_VECTOR_STEP:
                walked |= {(group.source, group.component, at) for at in _begun(model, works, group, dim, rows)}
    return Counter(at % PERIOD // CACHE_LINE for *_, at in walked)


def _in_memory(model: SketchFeaturizer, group: AccessGroup) -> bool:
    return model.structure.spot(group.source) is None  # inputs have no place in a kernel


def _sets(model: SketchFeaturizer, group: AccessGroup) -> int:
    """Return on how many sets the rows of an array fall that lie side by side, one in each of its dimensions."""
    size, strides, _ = array_in_memory(model.bound, group)
    apart = [s * size for s in strides if s * size >= CACHE_LINE]
    return min((PERIOD // gcd(PERIOD, a) for a in apart), default=PERIOD)


def _begun(model: SketchFeaturizer, works: LaneWorks, group: AccessGroup, dim: str, rows: int) -> set[int]:
    """Return where the rows begin that accesses walk, in bytes from some place that is the same for all."""
    size, strides, _ = array_in_memory(model.bound, group)
    across = np.array(strides, np.int64) * size
    across[works.fastest(group.source)] = 0
    return set(np.ravel(index_values(group, dim, rows) @ across).tolist())
