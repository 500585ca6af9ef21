"""Hashes of a schedule's structure at growing depth: schedules with equal coarse structure share shallow hashes.

The search groups candidates by such a hash, and penalises states that repeat the structure of better ones (Anderson,
section 5).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from autosched.schedule.types import FusedProducer, Kernel, Loop, LoopKind, Schedule, StageTiling


def structural_hash(kernels: Schedule | Iterable[Kernel], depth: int) -> int:
    """Return a hash in ``[0, 2**64)`` of the structure of kernels down to a depth.

    It covers the layers from 0 to ``depth``, so schedules with equal hashes at one depth have equal hashes at every
    smaller depth:

    * 0, compute locations: root stages, stages of fused producers with level and host, materialised Funcs, inlined
      Funcs. No extents and no call counts.
    * 1, shape: the dimensions with a loop of each kind, the vector dimension (of the first thread loop), the number of
      host loops around each fused producer, and whether threads are linear.
    * 2: the extents of the block loops, in order.
    * 3 + n: the extents of the thread loops, in order, of stages at nesting depth n. A root has depth 0, a fused
      producer one more than its host.
    * 4 + n: all loops of these stages, in order, with storage order and alignment.

    Loops of extent 1 do not count in any layer. Hashes at negative depths are equal; beyond the last layer they stay
    the same. The order of kernels, fused producers and inlined Funcs does not count. The hash is the same in every
    process and on every machine.

    Args:
        kernels: A schedule, or the kernels of a partial one.
        depth: The last layer that counts.
    """
    listed = kernels.kernels if isinstance(kernels, Schedule) else kernels
    return int.from_bytes(_digest(sorted(_digest(_layers(k, depth)).hex() for k in listed))[:8], "big")


def _digest(value: list[Any]) -> bytes:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).digest()


def _layers(kernel: Kernel, depth: int) -> list[list[Any]]:
    """Return the layers of one kernel up to a depth, at most its last layer."""
    nested: list[tuple[StageTiling, int, tuple[str, ...]]] = [(r.tiling, 0, ()) for r in kernel.roots]
    nested += [(t, _nesting(kernel, m), _storage(m)) for m in kernel.fused for t in m.tilings]
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


def _storage(m: FusedProducer) -> tuple[str, ...]:
    """Return the storage order of a fused producer, with its alignment and the memory of its tile."""
    memory = (*(["private"] if m.private else ()), *map(str, m.registers or ()))
    return (*m.storage_order, *map(str, m.aligned or ()), *memory)


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
    options = ["linear threads"] if kernel.linear_threads else []
    options += [f"resident blocks {kernel.resident_blocks}"] if kernel.resident_blocks else []
    return [sorted(stages), sorted([m.func, _enclosing(kernel, m)] for m in kernel.fused), *options]


def _details(t: StageTiling, storage_order: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the entries of a stage in the three layers from 2 + n on."""
    loops = _iterating(t.loops)
    warps = [[p.dim, p.kind.value, p.extent] for p in loops if p.kind is LoopKind.WARP]
    yield [*([p.dim, p.extent] for p in loops if p.kind is LoopKind.BLOCK), *warps]
    yield [[p.dim, p.extent] for p in loops if p.kind is LoopKind.THREAD]
    yield [[[p.dim, p.kind.value, p.extent] for p in loops], *storage_order]


def _iterating(loops: Sequence[Loop]) -> list[Loop]:
    return [p for p in loops if p.extent > 1]


def _enclosing(kernel: Kernel, m: FusedProducer) -> int:
    """Return the number of host loops around a producer; its depth if the host has no tiling yet."""
    host = next((t for t in kernel.tilings() if t.stage == m.at.host), None)
    return m.at.depth if host is None else len(_iterating(host.loops[: m.at.depth]))


def _nesting(kernel: Kernel, m: FusedProducer) -> int:
    """Return the nesting depth of a producer: 1 inside a root."""
    n, outer = 1, kernel.member(m.at.host.func)
    while outer is not None and n < len(kernel.fused):  # the bound ends illegal cycles of hosts
        n, outer = n + 1, kernel.member(outer.at.host.func)
    return n
