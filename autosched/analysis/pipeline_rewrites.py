"""Records of the rewrites of a pipeline that a schedule states; `autosched.analysis.rewrites` applies them.

Each names Funcs by their names after earlier rewrites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, order=True)
class RFactor:
    """A reduction factored into partial reductions (`autosched.analysis.rewrites.rfactor`).

    Attributes:
        func: The Func, by its name after earlier rewrites.
        stage: Number of the update.
        loops: The factored loops of the reduction, each with its number of parts. Part k of n has the iterations k,
            k + n, k + 2n and so on, so that neighbouring threads read neighbouring elements.
        atomic: Whether threads execute the iterations of each part concurrently, by atomic updates; without ``loops``,
            those of the whole reduction.
        contiguous: Whether part k has the k-th share of consecutive iterations instead, so that each core reads memory
            of its own.
    """

    func: str
    stage: int
    loops: tuple[tuple[str, int], ...]
    atomic: bool = False
    contiguous: bool = False


@dataclass(frozen=True, slots=True, order=True)
class HorizontalFusion:
    """Funcs fused into one tuple-valued Func (`autosched.analysis.rewrites.horizontal_fusion`).

    Attributes:
        funcs: Their names after earlier rewrites.
    """

    funcs: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class WindowDoubling:
    """A reduction over a window, computed by doubling (`autosched.analysis.rewrites.window_doubling`).

    Attributes:
        func: The Func, by its name after earlier rewrites.
        stage: Number of the update.
        loop: The reduction loop over the elements of the window.
    """

    func: str
    stage: int
    loop: str


@dataclass(frozen=True, slots=True, order=True)
class ScanBlocking:
    """A scan computed by blocks in parallel (`autosched.analysis.rewrites.scan_blocking`).

    Attributes:
        func: The Func, by its name after earlier rewrites.
        stage: Number of the update.
        block: Elements of a block.
        chunk: Elements of a chunk of a block, which divides it; 0 for a serial scan of each block.
        doubled: Whether the carries of a recurrence of second order are scanned by doubling, not serially.
    """

    func: str
    stage: int
    block: int
    chunk: int = 0
    doubled: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Deinterleaving:
    """Reads with a stride, from a copy of their source (`autosched.analysis.rewrites.deinterleaving`).

    Attributes:
        func: The Func that reads, by its name after earlier rewrites.
        source: The input or Func that it reads.
        stride: Distance of the elements, along the last dimension, that neighbours read.
    """

    func: str
    source: str
    stride: int


@dataclass(frozen=True, slots=True, order=True)
class InvariantHoisting:
    """Values of one coordinate alone, in a Func of their own (`autosched.analysis.rewrites.invariant_hoisting`).

    Attributes:
        func: The Func that has them, by its name after earlier rewrites.
        dim: The dimension on which they depend.
    """

    func: str
    dim: str


@dataclass(frozen=True, slots=True, order=True)
class ReductionUnrolling:
    """A reduction unrolled with its tables evaluated (`autosched.analysis.rewrites.reduction_unrolling`).

    Attributes:
        func: The Func, by its name after earlier rewrites.
        stage: Number of the update.
        loop: The only reduction loop of the update.
    """

    func: str
    stage: int
    loop: str


@dataclass(frozen=True, slots=True, order=True)
class IntegerNarrowing:
    """Funcs in the narrowest integer types that hold their values (`autosched.analysis.rewrites.integer_narrowing`).

    Attributes:
        funcs: Their names after earlier rewrites.
    """

    funcs: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class ExpressionFission:
    """A value of a Func split into partial values, each in a Func (`autosched.analysis.rewrites.expression_fission`).

    Attributes:
        func: The Func, by its name after earlier rewrites.
        parts: Number of parts, at least 2; the last one stays in the Func.
        component: The component of the Func.
    """

    func: str
    parts: int
    component: int = 0


@dataclass(frozen=True, slots=True, order=True)
class ComputationFolding:
    """A value repeated at shifted points, in a Func (`autosched.analysis.rewrites.computation_folding`).

    Attributes:
        func: The Func that repeats it, by its name after earlier rewrites.
        number: Its number among the repeated values of the Func; 0 saves most operations.
    """

    func: str
    number: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Retiming:
    """A sum over planes, accumulated plane by plane (`autosched.analysis.rewrites.retiming`).

    Attributes:
        func: The Func, by its name after earlier rewrites.
        dim: The dimension across the planes.
        component: The component of the Func.
    """

    func: str
    dim: str
    component: int = 0


StatementRewrite = ExpressionFission | ComputationFolding | Retiming
"""Rewrites of one definition into several, after which the outputs have the same names."""


@dataclass(frozen=True, slots=True, order=True)
class ComponentFission:
    """A tuple-valued Func split into several (`autosched.analysis.rewrites.component_fission`).

    Attributes:
        func: The Func, by its name after earlier rewrites.
        groups: The components of each new Func; every component is in one group.
    """

    func: str
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, order=True)
class FuncClone:
    """A copy of a Func for some of its consumers (`autosched.analysis.rewrites.func_cloning`).

    Attributes:
        func: The Func, by its name after earlier rewrites.
        consumers: The Funcs that read the copy, by their names after earlier rewrites.
    """

    func: str
    consumers: tuple[str, ...]


PipelineRewrites = tuple[
    WindowDoubling
    | ScanBlocking
    | Deinterleaving
    | InvariantHoisting
    | ReductionUnrolling
    | IntegerNarrowing
    | RFactor
    | StatementRewrite
    | ComponentFission
    | HorizontalFusion
    | FuncClone,
    ...,
]
"""Rewrites of a pipeline that a schedule states, in the order of their application."""


class LaneLoop(NamedTuple):
    """Terms of an update, distributed over neighbouring lanes (`autosched.analysis.rewrites.lane_loops`).

    Attributes:
        func: The Func.
        stage: Number of its update.
        loop: The reduction loop whose iterations are divided among the lanes.
        width: Number of lanes.
        stride: Distance between the iterations of neighbouring lanes.
    """

    func: str
    stage: int
    loop: str
    width: int
    stride: int = 1

    @property
    def dim(self) -> str:
        """Name of the loop over the lanes."""
        return f"{self.loop}.lane"
