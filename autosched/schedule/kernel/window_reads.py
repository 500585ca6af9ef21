"""Reads of windows and hybrid tiles, one by one, and the dimensions of the root that those of windows correspond to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.schedule.kernel.register_window import Point

READS = "_window_reads"
"""Name of the memo (`autosched.analysis.pipeline_memo`) of the reads of windows."""


class WindowReads:
    """The reads of MAINLOOP producers, and the dimensions of the root that theirs correspond to.

    Args:
        bound: The pipeline, with the cache reads of the kernel.
        inlined: Names of inlined Funcs.
        slides: The dimension along which rows move, of the root and of each MAINLOOP producer.
    """

    def __init__(self, bound: BoundPipeline, inlined: Collection[str], slides: Mapping[str, str]) -> None:
        self._bound = bound
        self._inlined = inlined
        self._slides = slides

    def of(self, stage: BoundStage) -> Sequence[tuple[str, Point]]:
        """Return the MAINLOOP producers that a stage reads directly or through inlined Funcs, with each read's indices.

        Indices are in the stage's loops. They are computed once for all kernels with these windows.
        """
        memo = pipeline_memo(self._bound, READS)
        key = stage.func, stage.number, frozenset(self._slides), frozenset(self._inlined)
        if key not in memo:
            memo[key] = tuple(self._reads(stage))
        reads: Sequence[tuple[str, Point]] = memo[key]
        return reads

    def _reads(self, stage: BoundStage) -> Iterator[tuple[str, Point]]:
        queue: list[tuple[BoundStage, Point]] = [(stage, {})]
        seen: set[tuple[str, ...]] = set()
        while queue:
            stage, point = queue.pop()
            for load, source in stage.loads:
                if source == stage.func or (source not in self._slides and source not in self._inlined):
                    continue
                indices = [ix.substitute(stage.index_of(i), point) for i in load.indices]
                text = (source, *map(ix.key, indices))
                if text in seen:
                    continue
                seen.add(text)
                named = dict(zip(self._bound.funcs[source].dims, indices, strict=True))
                if source in self._slides:
                    yield source, named
                else:
                    queue.append((self._bound.funcs[source].stages[0], named))

    def root_dims(self, root: str, stages: Sequence[BoundStage]) -> dict[str, dict[str, str]]:
        """Return the dimensions of the root that those of each producer correspond to, apart from that of the rows.

        Args:
            root: Name of the root.
            stages: Stages of the root and of the producers, consumers first.
        """
        dims = {root: {d: d for d in self._bound.funcs[root].dims if d != self._slides[root]}}
        for stage in stages:
            own = dims.get(stage.func, {})
            for name, indices in self.of(stage):
                if name in dims:
                    continue
                others = {d: _dim_at(i, own) for d, i in indices.items() if d != self._slides[name]}
                found = {d: own[e] for d, e in others.items() if e is not None}
                if len(found) == len(others) == len(set(found.values())):
                    dims[name] = found
        return dims


def _dim_at(index: ix.Index, dims: Collection[str]) -> str | None:
    """Return the dimension that an index is but for a constant, clamps and reflections; None for another index."""
    names = {t.name for t in ix.atoms(index) if isinstance(t, ix.LoopVar)}
    inner = [a for t in ix.atoms(index) if isinstance(t, ix.Atom) for a in t.args]
    factors = {c for a in (index, *inner) for t, c in ix.terms_of(a)}
    return names.pop() if len(names) == 1 and factors <= {1, -1} and names <= set(dims) else None
