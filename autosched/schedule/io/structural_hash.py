"""Hashes of a schedule's structure at growing depth: schedules alike in the large share their shallow hashes.

The search puts candidates into buckets by such a hash, and penalises states that repeat the structure of better ones
(Anderson, section 5).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from autosched.schedule.types import FusedProducer, Kernel, Loop, LoopKind, Schedule, StageTiling


def structural_hash(kernels: Schedule | Iterable[Kernel], depth: int) -> int:
    """Return a hash in ``[0, 2**64)`` of what kernels look like down to a depth.

    It covers the layers from 0 to ``depth``, so schedules with equal hashes at one depth have equal hashes at every
    smaller depth:

    * 0, placement: each kernel's root stages, each Member's stages with its level and host stage, which of them are
      stored to global memory, and which Funcs are inlined. No extents and no call counts.
    * 1, shape: which dimensions of each stage have a loop of each kind, the vector dimension (that of the first thread
      loop), and how many loops of its host enclose each Member.
    * 2: the extents of the block loops, in order.
    * 3 + n: the extents of the thread loops, in order, of all stages nested n deep. A root is nested 0 deep, a Member
      one deeper than its host.
    * 4 + n: all loops of those stages, in order, and the storage order and alignment of those Members.

    A loop of one iteration counts as absent in every layer. Below depth 0 all hashes are equal; beyond the last layer
    they stay the same. The order of kernels, of Members and of inlined Funcs does not count. The hash is the same in
    every process and on every machine.

    Args:
        kernels: A schedule, or the kernels decided so far.
        depth: The last layer to cover.
    """
    listed = kernels.kernels if isinstance(kernels, Schedule) else kernels
    return int.from_bytes(_digest(sorted(_digest(_layers(k, depth)).hex() for k in listed))[:8], "big")


def _digest(value: list[Any]) -> bytes:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).digest()


def _layers(kernel: Kernel, depth: int) -> list[list[Any]]:
    """Return the layers of one kernel up to a depth, or all of them."""
    nested: list[tuple[StageTiling, int, tuple[str, ...]]] = [(r.tiling, 0, ()) for r in kernel.roots]
    nested += [
        (t, _nesting(kernel, m), (*m.storage_order, *map(str, m.aligned or ())))
        for m in kernel.fused
        for t in m.tilings
    ]
    last = 4 + max((n for _, n, _ in nested), default=0)
    layers: list[list[Any]] = [[] for _ in range(min(depth, last) + 1)]
    if depth >= 0:
        layers[0] = _placement(kernel)
    if depth >= 1:
        layers[1] = _shape(kernel)
    for tiling, n, order in nested:
        for layer, detail in enumerate(_details(tiling, order), start=2 + n):
            if layer <= depth:
                layers[layer].append([tiling.stage.func, tiling.stage.number, detail])
    return [*layers[:2], *map(sorted, layers[2:])]


def _placement(kernel: Kernel) -> list[Any]:
    roots = [[r.tiling.stage.func, r.tiling.stage.number, r.materialised] for r in kernel.roots]
    members = [
        [[t.stage.func, t.stage.number], m.at.level.value, m.at.host.func, m.at.host.number, m.materialised]
        for m in kernel.fused
        for t in m.tilings
    ]
    return [roots, sorted(members), sorted(i.func for i in kernel.inlined)]


def _shape(kernel: Kernel) -> list[Any]:
    stages = []
    for t in kernel.tilings():
        loops = _iterating(t.loops)
        vector = next((p.dim for p in loops if p.kind is LoopKind.THREAD), "")
        stages.append([t.stage.func, t.stage.number, vector, sorted([p.kind.value, p.dim] for p in loops)])
    return [sorted(stages), sorted([m.func, _enclosing(kernel, m)] for m in kernel.fused)]


def _details(t: StageTiling, storage_order: Sequence[str]) -> Iterator[list[Any]]:
    """Yield what the three layers from 2 + n on say of a stage."""
    loops = _iterating(t.loops)
    yield [[p.dim, p.extent] for p in loops if p.kind is LoopKind.BLOCK]
    yield [[p.dim, p.extent] for p in loops if p.kind is LoopKind.THREAD]
    yield [[[p.dim, p.kind.value, p.extent] for p in loops], *storage_order]


def _iterating(loops: Sequence[Loop]) -> list[Loop]:
    return [p for p in loops if p.extent > 1]


def _enclosing(kernel: Kernel, m: FusedProducer) -> int:
    """Return how many loops of its host are around a Member (all it names, where the host is not decided yet)."""
    host = next((t for t in kernel.tilings() if t.stage == m.at.host), None)
    return m.at.depth if host is None else len(_iterating(host.loops[: m.at.depth]))


def _nesting(kernel: Kernel, m: FusedProducer) -> int:
    """Return how many stages a Member is inside of."""
    n, outer = 1, kernel.member(m.at.host.func)
    while outer is not None and n < len(kernel.fused):  # a cycle of hosts is illegal, but ends here too
        n, outer = n + 1, kernel.member(outer.at.host.func)
    return n
