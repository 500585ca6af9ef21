"""Compute locations of a Func, given those of its consumers (Anderson, section 6, decision 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, TileColumns, columns
from autosched.schedule.tilings import fusable_roots
from autosched.schedule.types import Level, StageId
from autosched.search.space.effort import inlined_before


class _EnclosingLoops(NamedTuple):
    """Loops of a host's thread that enclose a location: number of serial loops, and whether reduction loops do."""

    points: int
    in_terms: bool


@dataclass
class ComputeLocations:
    """Makes the sketches that result from the compute location of one Func; results are cached.

    Args:
        featurizer: Featurizer of the pipeline, for the accesses of a sketch.
    """

    featurizer: Featurizer
    _order: dict[str, int] = field(default_factory=dict)
    _roots: dict[str, list[KernelSketch]] = field(default_factory=dict)
    _reads: dict[KernelSketch, frozenset[str]] = field(default_factory=dict)
    _layouts: dict[KernelSketch, TileColumns] = field(default_factory=dict)
    _bare: dict[KernelSketch, KernelSketch] = field(default_factory=dict)
    _one: dict[KernelSketch, KernelSketch] = field(default_factory=dict)
    _dynamic: dict[tuple[KernelSketch, str], bool] = field(default_factory=dict)
    _successors: dict[tuple[KernelSketch, str, str], tuple[KernelSketch, ...]] = field(default_factory=dict)
    _updated: dict[tuple[KernelSketch, frozenset[str], frozenset[str]], KernelSketch] = field(default_factory=dict)
    _inlined_by_func: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline."""
        return self.featurizer.bound

    @cached_property
    def inlined_before(self) -> frozenset[str]:
        """Funcs that are inlined without a decision (`autosched.search.space.effort`)."""
        return inlined_before(self.bound)

    def _inlined_into(self, func: str) -> frozenset[str]:
        """Return the Funcs that are inlined without a decision into a Func, directly or indirectly."""
        inlined = self._inlined_by_func.get(func)
        if inlined is None:
            before, reached = self.inlined_before, set[str]()
            stack = [func] if before else []
            while stack:
                sources = {n for stage in self.bound.funcs[stack.pop()].stages for n in stage.sources}
                fresh = (sources & before) - reached
                reached |= fresh
                stack += fresh
            inlined = self._inlined_by_func[func] = frozenset(reached)
        return inlined

    def one(self, sketch: KernelSketch) -> KernelSketch:
        """Return the unique object of equal sketches, so that comparisons are cheap."""
        return self._one.setdefault(sketch, sketch)

    def bare(self, sketch: KernelSketch) -> KernelSketch:
        """Return a sketch without the status of its undecided sources."""
        if sketch not in self._bare:
            self._bare[sketch] = self.one(with_producers(sketch, sketch.locations, sketch.inlined))
        return self._bare[sketch]

    def layout(self, sketch: KernelSketch) -> TileColumns:
        """Return the columns of a sketch's tile sizes."""
        layout = self._layouts.get(sketch)
        if layout is None:
            layout = self._layouts[sketch] = columns(self.bound, sketch)
        return layout

    def reads(self, sketch: KernelSketch) -> frozenset[str]:
        """Return the Funcs that a kernel's loop nests read, directly or through inlined Funcs.

        Accesses are not enumerated, as most of these kernels are never costed. Cache reads read what their readers do.
        """
        reads = self._reads.get(sketch)
        if reads is None:
            funcs = self.bound.funcs
            stages = [self.bound.stage(*s) for s in sketch.stages]
            stages += [s for at in sketch.locations if at.func in funcs for s in funcs[at.func].nonempty_stages]
            found: set[str] = set()
            queue = [source for stage in stages for source in stage.sources]
            while queue:
                name = queue.pop()
                if name not in found and name in funcs:
                    found.add(name)
                    queue += funcs[name].stages[0].sources if name in sketch.inlined else ()
            reads = self._reads[sketch] = frozenset(found - sketch.inlined)
        return reads

    @staticmethod
    def inside(sketch: KernelSketch) -> set[str]:
        """Return the Funcs that a kernel computes, inlined ones included."""
        return {sketch.func, *(s.func for s in sketch.locations), *sketch.inlined}

    def _cached(
        self, sketch: KernelSketch, step: str, func: str, make: Callable[[], Iterable[KernelSketch]]
    ) -> tuple[KernelSketch, ...]:
        """Return the cached sketches after a step, made when they are first requested."""
        key = sketch, step, func
        if key not in self._successors:
            self._successors[key] = tuple(map(self.one, make()))
        return self._successors[key]

    def can_inline(self, func: BoundFunc) -> bool:
        """Whether a Func may be substituted into its consumers."""
        return func.is_pure and not func.is_output and not func.undefined and bool(func.consumers)

    def root_sketches(self, func: BoundFunc) -> list[KernelSketch]:
        """Return the root kernels of a Func, one for each group of stages with a shared loop nest."""
        roots = self._roots.get(func.name)
        if roots is None:
            groups = [tuple(StageId(func.name, s.number) for s in g) for g in fusable_roots(func)]
            inlined = self._inlined_into(func.name)
            roots = self._roots[func.name] = [self.one(KernelSketch(stages, (), inlined)) for stages in groups]
        return roots

    def inlined(self, sketch: KernelSketch, func: str) -> KernelSketch:
        """Return a kernel with a Func inlined."""
        s = sketch
        inlined = self._inlined_into(func) | {func}
        return self._cached(
            s, "inline", func, lambda: [with_producers(s, s.locations, s.inlined | inlined, s.near, s.far)]
        )[0]

    def at_block(self, sketch: KernelSketch, func: str) -> KernelSketch:
        """Return a kernel with a Func at BLOCK, which is at WARP where warps have tiles of their own."""
        return self._cached(
            sketch,
            "block",
            func,
            lambda: [self._with(sketch, ComputeLocation(func, Level.BLOCK, sketch.stages[0]))],
        )[0]

    def at_thread(self, sketch: KernelSketch, func: str) -> tuple[KernelSketch, ...]:
        """Return kernels with a Func at THREAD, for all locations from the outermost to the innermost."""
        return self._cached(sketch, "thread", func, lambda: self._thread_locations(sketch, func))

    def _thread_locations(self, sketch: KernelSketch, func: str) -> Iterator[KernelSketch]:
        host = self._common_host(sketch, func)
        if host is not None:
            stage, innermost = host
            yield self._with(sketch, ComputeLocation(func, Level.THREAD, stage))
            if self._varies_with_terms(sketch, func, *host):
                yield self._with(sketch, ComputeLocation(func, Level.THREAD, stage, each_term=True))
            for enclosing in range(1, innermost.points + 1):
                yield self._with(sketch, ComputeLocation(func, Level.THREAD, stage, enclosing))

    def _varies_with_terms(self, sketch: KernelSketch, func: str, host: StageId, innermost: _EnclosingLoops) -> bool:
        """Whether a host's reduction loops enclose all reads of a Func, and its required points vary with them."""
        if not innermost.in_terms:
            return False
        model = self.featurizer.model(self.bare(sketch))
        dims = model.facts.dims[model.rows.index(host)]
        terms = {d.name for d in self.bound.stage(*host).reductions if d.extent > 1 and d.name not in dims}
        return any(
            terms & g.loops() if reader == host else terms
            for reader in model.rows
            for g in model.accesses_of(reader).loads
            if g.source == func
        )

    def _with(self, s: KernelSketch, location: ComputeLocation) -> KernelSketch:
        inlined = s.inlined | self._inlined_into(location.func)
        return with_producers(s, self._ordered((*s.locations, location)), inlined, s.near, s.far)

    def _ordered(self, locations: Sequence[ComputeLocation]) -> tuple[ComputeLocation, ...]:
        if not self._order:
            self._order.update((name, k) for k, name in enumerate(self.bound.funcs))
        return tuple(sorted(locations, key=lambda s: self._order[s.func]))

    def _common_host(self, sketch: KernelSketch, func: str) -> tuple[StageId, _EnclosingLoops] | None:
        """Return the innermost stage whose thread computes all readers of a Func, with the loops that enclose them."""
        model = self.featurizer.model(self.bare(sketch))
        chains = []
        for reader, dims in zip(model.rows, model.facts.dims, strict=True):
            if all(g.source != func for g in model.accesses_of(reader).loads):
                continue
            chain = [(reader, _EnclosingLoops(len(dims), in_terms=True))]
            location = sketch.location(reader.func)
            while location is not None and location.level is Level.THREAD:
                chain.append((location.host, _EnclosingLoops(location.enclosing, location.in_terms)))
                location = sketch.location(location.host.func)
            chains.append(chain)
        if not chains:
            return None
        for stage, loops in chains[0]:
            enclosing = [dict(c).get(stage) for c in chains]
            if None not in enclosing:
                return stage, min(a for a in (*enclosing, loops) if a is not None)
        return None

    def may_index_dynamically(self, sketch: KernelSketch, func: str) -> bool:
        """Whether a fused producer at THREAD may be read at indices that stay dynamic after unrolling.

        Conservative: false only if all indices between producer and root are affine with equal coefficients.
        """
        bare = self.bare(sketch)
        key = bare, func
        if key not in self._dynamic:
            model = self.featurizer.model(bare)
            groups = [g for s in model.rows for g in model.accesses_of(s).loads if g.source == func]
            kinds = {tuple(None if r is None else (r.coefficients, r.quotient) for r in g.rows) for g in groups}
            simple = len(kinds) == 1 and all(r is not None and r.quotient == 1 for g in groups for r in g.rows)
            terms = {d.name for s in model.rows for d in self.bound.stage(s.func, s.number).reductions}
            simple = simple and not any(terms & g.loops() for g in groups)  # long reductions are not unrolled
            stages = [self.bound.stage(s.func, s.number) for s in model.rows]
            stages += [self.bound.funcs[name].stages[0] for name in bare.inlined]
            reads = [f for s in stages for f in s.footprints if f.source == func or f.source in bare.inlined]
            atoms = any(isinstance(t, ix.Atom) for f in reads for dim in f.dims for i in dim for t in ix.atoms(i))
            self._dynamic[key] = atoms or not simple
        return self._dynamic[key]

    def status(
        self, sketch: KernelSketch, levels: Mapping[str, Level], placed: str, elsewhere: frozenset[str]
    ) -> KernelSketch:
        """Return a sketch with its undecided sources classified as near (no other reader) or far.

        Args:
            sketch: The kernel.
            levels: Levels of all placed Funcs.
            placed: The Func that is being placed.
            elsewhere: Funcs that are also inlined into other kernels.
        """
        undecided = self.reads(sketch).difference(levels, (placed,))
        key = sketch, undecided, elsewhere & sketch.inlined
        if key not in self._updated:
            self._updated[key] = self.one(self._with_status(sketch, undecided, elsewhere))
        return self._updated[key]

    def _with_status(self, sketch: KernelSketch, undecided: frozenset[str], elsewhere: frozenset[str]) -> KernelSketch:
        """As `status`, without its cache, for given undecided sources."""
        inside = self.inside(sketch)
        near: set[str] = set()
        far: set[str] = set()
        for name in undecided - inside:
            consumers = self.bound.funcs[name].consumers
            only_here = all(c in inside and c not in elsewhere for c in consumers)
            (near if only_here else far).add(name)
        return with_producers(sketch, sketch.locations, sketch.inlined, frozenset(near), frozenset(far))


def with_producers(
    sketch: KernelSketch, locations: tuple[ComputeLocation, ...], inlined: frozenset[str],
    near: frozenset[str] = frozenset(), far: frozenset[str] = frozenset(),
) -> KernelSketch:  # fmt: skip
    """Return a kernel with other producers and statuses of sources; only orders of warp tiles stay."""
    if not sketch.warps:
        return KernelSketch(sketch.stages, locations, inlined, near, far)
    return KernelSketch(
        sketch.stages, locations, inlined, near, far, sketch.orders, linear_threads=True, warps=sketch.warps
    )
