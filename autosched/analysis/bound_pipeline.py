"""A pipeline bound to shapes: every domain, region and access in exact integers.

The input of schedules, lowering and search. Funcs are referred to by their unique names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from autosched.analysis.expressions.expression_graph import ExpressionGraph, expression_graph
from autosched.analysis.identifiers import identifiers, reserved_names
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    Deinterleaving,
    FuncClone,
    HorizontalFusion,
    IntegerNarrowing,
    InvariantHoisting,
    LaneLoop,
    PipelineRewrites,
    ReductionUnrolling,
    RFactor,
    ScanBlocking,
    StatementRewrite,
    WindowDoubling,
)
from autosched.deprecation import renamed_attributes
from autosched.lang.dtypes import DType
from autosched.lang.expr import Expr, Load, Param, Scalar, walk
from autosched.lang.pipeline import Pipeline
from autosched.lang.source_location import SourceLocation

Box = tuple[tuple[int, int], ...]
"""Inclusive (low, high) per dimension."""


@dataclass(frozen=True, slots=True)
class LoopDim:
    """A loop of a stage.

    Args:
        name: The Func's dimension, or the reduction variable (``r.x``).
        reduction: Whether it is a reduction loop.
        lo: Lowest value of a reduction loop; pure loops range over the region.
        hi: Highest value; below ``lo`` when the loop is empty.
        parallel: Whether its iterations may run in any order on different threads.
        lanes: Whether its iterations are lanes of a warp reduction (`autosched.analysis.rewrites.lane_loops`).
        in_step: Whether its iterations may run in any order within one iteration of the stage's ``steps``.
    """

    name: str
    reduction: bool
    parallel: bool
    lo: int = 0
    hi: int = -1
    lanes: bool = False
    in_step: bool = False

    @property
    def extent(self) -> int:
        """Number of iterations of a reduction loop."""
        return max(self.hi - self.lo + 1, 0)


@dataclass(frozen=True)
class AccessFootprint:
    """Reads of one source by a stage: for each dimension, indices whose hull over the loops is the accessed region."""

    source: str
    dims: tuple[tuple[ix.Index, ...], ...]

    @cached_property
    def loop_vars(self) -> tuple[frozenset[str], ...]:
        """Names of the loop variables that each dimension's indices depend on."""
        return tuple(frozenset(name for i in dim for name in ix.loop_vars(i)) for dim in self.dims)


@dataclass(frozen=True)
class BoundStage:
    """One definition of a Func over concrete loops.

    ``indices`` are the stored point; ``store`` and ``index_of`` give symbolic indices over loop variables named as in
    ``loops``. ``associative`` marks updates of the form acc = acc OP value, ``owns_point`` those that read themselves
    only at the written point. ``combine`` has an operator for each value of an atomic update, which threads may execute
    concurrently and which reads no value of its own Func. ``steps`` are reduction loops, outermost first; within one
    iteration of these the loops marked ``in_step`` are parallel as well. ``skipped`` marks stages of a Func without
    points.
    """

    func: str
    number: int
    loops: tuple[LoopDim, ...]
    store: tuple[ix.Index, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    footprints: tuple[AccessFootprint, ...]
    associative: bool
    owns_point: bool
    location: SourceLocation | None
    memo: dict[int, ix.Index] = field(repr=False, compare=False)

    def index_of(self, e: Expr) -> ix.Index:
        """Return the symbolic index of an integer expression of this stage."""
        return to_index(e, self.memo)

    @property
    def is_update(self) -> bool:
        """Whether this is an update definition."""
        return self.number > 0

    @cached_property
    def is_empty(self) -> bool:
        """Whether a loop has no iterations, so that the stage has no effect."""
        return self.skipped or any(d.reduction and d.extent == 0 for d in self.loops)

    def loop(self, name: str) -> LoopDim:
        """Return the loop of that name."""
        return next(d for d in self.loops if d.name == name)

    @cached_property
    def reductions(self) -> tuple[LoopDim, ...]:
        """The reduction loops in order."""
        return tuple(d for d in self.loops if d.reduction)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Names of all sources, the Func itself included."""
        return tuple(f.source for f in self.footprints)

    @cached_property
    def graph(self) -> ExpressionGraph:
        """Nesting and sharing of its expressions."""
        return expression_graph((*self.values, *self.indices))

    @cached_property
    def load_counts(self) -> Mapping[str, int]:
        """Number of distinct loads of each source."""
        counts: dict[str, int] = {}
        seen: set[tuple[str, ...]] = set()
        for load, source in self.loads:
            text = (source, str(load.component), *(ix.key(self.index_of(i)) for i in load.indices))
            if text not in seen:
                seen.add(text)
                counts[source] = counts.get(source, 0) + 1
        return counts

    @cached_property
    def loads(self) -> tuple[tuple[Load, str], ...]:
        """All loads, those in indices included, with the names of their sources."""
        nodes = {id(n): n for e in (*self.values, *self.indices) for n in walk(e)}
        return tuple((n, self.names[id(n.source)]) for n in nodes.values() if isinstance(n, Load))

    names: dict[int, str] = field(repr=False, compare=False, default_factory=dict)
    combine: tuple[str, ...] = ()
    skipped: bool = False
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class BoundFunc:
    """A Func with its region in the whole pipeline.

    ``fixed`` has the range that is always computed in dimensions that an update indexes by more than their Var; None
    elsewhere. ``within`` has the range that a boundary condition reads of its source; None for unbounded dimensions.
    In one step of sliding windows (`autosched.analysis.rewrites.mainloop_step`), ``slides`` is the dimension along
    which its rows move, empty for none, and ``kept_steps`` the number of steps whose rows it keeps; 0 in all other
    pipelines. ``window`` has the rows that a private sliding window has in registers and in shared memory there; None
    elsewhere.
    """

    name: str
    dims: tuple[str, ...]
    dtypes: tuple[DType, ...]
    stages: tuple[BoundStage, ...]
    region: Box
    fixed: tuple[tuple[int, int] | None, ...]
    is_output: bool
    undefined: bool
    consumers: tuple[str, ...]
    boundary: str | None = None
    within: tuple[tuple[int, int] | None, ...] = ()
    slides: str = ""
    kept_steps: int = 0
    window: tuple[int, int] | None = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @cached_property
    def nonempty_stages(self) -> tuple[BoundStage, ...]:
        """The stages with values and iterations."""
        return tuple(s for s in self.stages if s.values and not s.is_empty)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extent of the region in each dimension."""
        return tuple(max(hi - lo + 1, 0) for lo, hi in self.region)

    @property
    def is_used_whole(self) -> bool:
        """Whether every use needs all points, since updates fix the range of every dimension."""
        return bool(self.fixed) and all(f is not None for f in self.fixed)

    @property
    def is_pure(self) -> bool:
        """Whether there is only the pure definition, so that the Func can be inlined."""
        return len(self.stages) == 1


@dataclass(frozen=True)
class BoundInput:
    """An input with its shape."""

    name: str
    dtype: DType
    shape: tuple[int, ...]


@renamed_attributes(
    splits="rfactors", unsplit="before_rfactor", joins="fusions", unjoined="before_fusion", lanes="lane_loops",
    unshared="before_lane_loops", held="register_blocked", users="consumers", original="root_pipeline",
    computed="rewritten", returned="output_components",
)  # fmt: skip
@dataclass(frozen=True)
class BoundPipeline:
    """A pipeline with concrete shapes and specialised parameters.

    Attributes:
        pipeline: The pipeline.
        shapes: Shape of every input.
        inputs: The inputs by name.
        funcs: The Funcs by name, in topological order, producers first.
        outputs: For each output, by its public name, the Func that holds exactly the box that the caller gets: a
            copying Func where a larger region is computed.
        scalars: Parameters passed at every call.
        specialised: Parameters whose value is built in.
        names: Unique names by ``id(Func or Input)``.
        keep: Funcs besides those of ``pipeline`` to which ``names`` refers.
        windows: The windows by doubling (`autosched.analysis.rewrites.window_doubling`), in the order of application.
        before_windows: The pipeline without windows by doubling and all later rewrites.
        scans: The scans by blocks (`autosched.analysis.rewrites.scan_blocking`), in the order of their application.
        before_scans: The pipeline without scans by blocks and all later rewrites.
        deinterleavings: The deinterleaved reads (`autosched.analysis.rewrites.deinterleaving`), in the order of
            application.
        before_deinterleaving: The pipeline without deinterleaved reads and all later rewrites.
        hoistings: The hoisted invariants (`autosched.analysis.rewrites.invariant_hoisting`), in the order of
            application.
        before_hoisting: The pipeline without hoisted invariants and all later rewrites.
        unrollings: The unrolled reductions (`autosched.analysis.rewrites.reduction_unrolling`), in the order of
            application.
        before_unrolling: The pipeline without unrolled reductions and all later rewrites.
        narrowings: The narrowed integers (`autosched.analysis.rewrites.integer_narrowing`), in the order of their
            application.
        before_narrowing: The pipeline without narrowed integers and all later rewrites.
        rfactors: The factored reductions (`autosched.analysis.rewrites.rfactor`), in the order of their application.
        before_rfactor: The pipeline without factored reductions and all later rewrites.
        statements: The rewritten statements (`autosched.analysis.rewrites.statement`), in the order of their
            application.
        before_statements: The pipeline without rewritten statements, split components and fused outputs.
        fissions: The split Funcs (`autosched.analysis.rewrites.component_fission`), in the order of their application.
        before_fission: The pipeline without split components and fused outputs.
        fusions: The fused outputs (`autosched.analysis.rewrites.horizontal_fusion`), in the order of their application.
        before_fusion: The pipeline without fused outputs and clones.
        clones: The clones (`autosched.analysis.rewrites.func_cloning`), in the order of their application.
        before_clones: The pipeline without clones.
        fused_arrays: `output_components` of a pipeline with split or fused outputs.
        register_blocked: In one step of a mainloop (`autosched.analysis.rewrites.mainloop_step`), the Func all points
            of which are in registers.
        buffers: In one step of a mainloop, the number of buffers of each cached tile.
        lane_loops: Reductions with a loop over lanes (`autosched.analysis.rewrites.lane_loops`).
        before_lane_loops: The pipeline without loops over lanes, and with all steps of scans.
        one_step: Whether scans over rows have one step (`autosched.analysis.rewrites.mainloop_step`).
    """

    pipeline: Pipeline
    shapes: Mapping[str, tuple[int, ...]]
    inputs: Mapping[str, BoundInput]
    funcs: Mapping[str, BoundFunc]
    outputs: Mapping[str, str]
    scalars: tuple[Param, ...]
    specialised: Mapping[str, Scalar]
    names: Mapping[int, str] = field(repr=False)
    keep: tuple[object, ...] = field(repr=False, default=())
    windows: tuple[WindowDoubling, ...] = ()
    before_windows: BoundPipeline | None = field(repr=False, compare=False, default=None)
    scans: tuple[ScanBlocking, ...] = ()
    before_scans: BoundPipeline | None = field(repr=False, compare=False, default=None)
    deinterleavings: tuple[Deinterleaving, ...] = ()
    before_deinterleaving: BoundPipeline | None = field(repr=False, compare=False, default=None)
    hoistings: tuple[InvariantHoisting, ...] = ()
    before_hoisting: BoundPipeline | None = field(repr=False, compare=False, default=None)
    unrollings: tuple[ReductionUnrolling, ...] = ()
    before_unrolling: BoundPipeline | None = field(repr=False, compare=False, default=None)
    narrowings: tuple[IntegerNarrowing, ...] = ()
    before_narrowing: BoundPipeline | None = field(repr=False, compare=False, default=None)
    rfactors: tuple[RFactor, ...] = ()
    before_rfactor: BoundPipeline | None = field(repr=False, compare=False, default=None)
    statements: tuple[StatementRewrite, ...] = ()
    before_statements: BoundPipeline | None = field(repr=False, compare=False, default=None)
    fissions: tuple[ComponentFission, ...] = ()
    before_fission: BoundPipeline | None = field(repr=False, compare=False, default=None)
    fusions: tuple[HorizontalFusion, ...] = ()
    before_fusion: BoundPipeline | None = field(repr=False, compare=False, default=None)
    clones: tuple[FuncClone, ...] = ()
    before_clones: BoundPipeline | None = field(repr=False, compare=False, default=None)
    fused_arrays: tuple[tuple[str, str, int], ...] = ()
    register_blocked: str = ""
    buffers: int = 1
    lane_loops: tuple[LaneLoop, ...] = ()
    before_lane_loops: BoundPipeline | None = field(repr=False, compare=False, default=None)
    one_step: bool = False

    @property
    def root_pipeline(self) -> BoundPipeline:
        """The user's pipeline, without its rewrites."""
        rewritten = self.rewritten
        before = rewritten.before_windows or rewritten.before_scans or rewritten.before_deinterleaving
        return (
            before
            or rewritten.before_hoisting
            or rewritten.before_unrolling
            or rewritten.before_narrowing
            or rewritten.before_rfactor
            or rewritten
        )  # fmt: skip

    @property
    def rewritten(self) -> BoundPipeline:
        """The pipeline of the kernels: without loops over lanes, and with all steps of scans.

        Only features and searches use the others.
        """
        return self if self.before_lane_loops is None else self.before_lane_loops

    @property
    def rewrites(self) -> PipelineRewrites:
        """The rewrites of `root_pipeline` that kernels compute."""
        return (
            *self.windows, *self.scans, *self.deinterleavings, *self.hoistings, *self.unrollings, *self.narrowings,
            *self.rfactors, *self.statements, *self.fissions, *self.fusions, *self.clones,
        )  # fmt: skip

    @cached_property
    def output_components(self) -> tuple[tuple[str, str, int], ...]:
        """The returned arrays: name, Func, and component of the Func."""
        if self.fused_arrays:
            return self.fused_arrays
        arrays = []
        for public, func in self.outputs.items():
            count = len(self.funcs[func].dtypes)
            arrays += [(public if count == 1 else f"{public}_{k}", func, k) for k in range(count)]
        return tuple(arrays)

    @cached_property
    def key(self) -> str:
        """Text that identifies pipeline, shapes and specialised parameters."""
        shapes = [self.shapes[i.name] for i in self.pipeline.inputs]
        values = [repr(self.specialised.get(p.name)) for p in self.pipeline.params]
        return f"{self.pipeline.hash}|{shapes}|{values}"

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The position of every Func in topological order."""
        return {name: k for k, name in enumerate(self.funcs)}

    @cached_property
    def consumers(self) -> Mapping[str, frozenset[str]]:
        """The direct and indirect consumers of every Func."""
        result: dict[str, set[str]] = {name: set() for name in self.funcs}
        for name in reversed(list(self.funcs)):
            for source in {s for stage in self.funcs[name].stages for s in stage.sources}:
                if source in result and source != name:
                    result[source] |= {name, *result[name]}
        return {name: frozenset(consumers) for name, consumers in result.items()}

    @cached_property
    def identifiers(self) -> Mapping[str, str]:
        """The identifier in generated code of every input, Func and run-time parameter."""
        return identifiers((*self.inputs, *(p.name for p in self.scalars)), self._component_counts)

    @cached_property
    def taken_labels(self) -> frozenset[str]:
        """Identifiers that are not available for loops and local variables of generated code."""
        return reserved_names(self.identifiers, self._component_counts)

    @property
    def _component_counts(self) -> dict[str, int]:
        return {name: len(func.dtypes) for name, func in self.funcs.items()}

    def stage(self, func: str, number: int) -> BoundStage:
        """Return a stage of a Func."""
        return self.funcs[func].stages[number]

    def is_input(self, name: str) -> bool:
        """Whether a source is an input."""
        return name in self.inputs
