"""Columns of the descriptor tables: name, width and meaning of each static fact about nests and accesses.

Widths are one number (``""``), or a product of ``D`` (dimensions of nests), ``Q`` (dimensions of arrays), ``T``
(`MOST_REDUCTIONS`, the reductions of `reduction_extents`) and ``U`` (units of `arithmetic_work`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autosched.featurize.instructions.arithmetic_work import UNITS
from autosched.featurize.instructions.reduction_loops import MOST_REDUCTIONS


class Column(NamedTuple):
    """One column: its name, its width and one sentence on its meaning."""

    name: str
    width: str
    meaning: str


NEST_COLUMNS: Sequence[Column] = (
    Column("level", "", "ROOT, BLOCK or THREAD."),
    Column("ndims", "", "Dimensions of the nest outside reductions; further ones are padding."),
    Column("looped", "D", "Whether the stage has a loop over the dimension; updates may lack some."),
    Column("order", "D", "Positions of the dimensions in the order of threadIdx.x, y, z; -1 for padding."),
    Column("sizes", "D", "Points of the dimension that a root kernel's blocks divide."),
    Column("lows", "D", "Lowest of these points."),
    Column("domain_low", "D", "Lowest point of the Func; 0 if the dimension is not one of its own."),
    Column("domain_high", "D", "Highest point of the Func; `UNLIMITED` if the dimension is not one of its own."),
    Column("storage", "D", "The Func's dimensions from fastest to slowest in memory; -1 for padding."),
    Column("storage_item", "", "Bytes of an element of the Func's first component."),
    Column("reductions", "", "Terms of all reductions inside a thread."),
    Column("promotion", "", "NEVER, IF_SMALL or ALWAYS: when points are promoted to registers."),
    Column("components", "", "Tuple components of the Func."),
    Column("leading", "", "Whether the stage is the first of those that share the nest's threads."),
    Column("bytes", "", "Bytes of one point, all components."),
    Column("func_points", "", "Points of the Func in the whole pipeline."),
    Column("written_points", "", "Points that the stage writes in the whole pipeline, or in one step of a row scan."),
    Column("fastest", "", "Position of the dimension that is fastest in memory; -1 if the nest has none."),
    Column("func_fastest", "", "Points of the Func along its fastest dimension."),
    Column("inside_reductions", "D", "Whether the loop over the dimension is inside all reductions."),
    Column("innermost", "", "Position of the innermost dimension of code without threads."),
    Column("branching", "", "Strahler number of the stage's expression."),
    Column("loads", "", "Loads of one evaluation, inlined Funcs included."),
    Column("operations", "U", "Operations of one evaluation by unit."),
    Column("integer_instructions", "2", "Integer instructions of one evaluation: of all code, of boundary code only."),
    Column("float_instructions", "", "Single-precision instructions of one evaluation."),
    Column("code_size", "", "Operations of the code of one point."),
    Column("register_blocked", "", "Whether the nest accumulates the pipeline's register-blocked Func."),
    Column("terms", "T", "Iterations of the reductions inside a thread, outermost first."),
    Column("loop_order", "T+D", "Positions of reductions, then dimensions, from the outermost loop inwards."),
    Column("fixed_threads", "D", "Threads of an update with a tile of its own; 0 elsewhere."),
    Column("fixed_points", "D", "Points per thread of an update with a tile of its own; 0 elsewhere."),
    Column("over_terms", "D", "Whether the dimension is over terms of a reduction, not points of the Func."),
    Column("lanes", "D", "Whether the dimension is over the lanes of a warp reduction."),
    Column("shuffles", "", "Shuffles of one point's warp reduction."),
    Column("combine_operations", "U", "Operations of one point's warp reduction by unit."),
)  # fmt: skip

ACCESS_COLUMNS: Sequence[Column] = (
    Column("table", "", "Number of the offset table."),
    Column("cache_class", "", "Number of the class of groups with the same offset table, byte strides and direction."),
    Column("memory", "", "GLOBAL, SHARED or REGISTER."),
    Column("placed", "", "Whether the array has a layout in this memory yet."),
    Column("store", "", "Whether the group stores."),
    Column("own", "", "Whether a stage accesses its own Func."),
    Column("affine", "", "Whether all indices are affine."),
    Column("exact", "", "Whether the affine form gives the address of every interior point."),
    Column("everywhere", "", "Whether no index loses a term in the middle of the loops' ranges."),
    Column("divides", "", "Whether an index has a floor division."),
    Column("phased", "", "Whether elements are smaller than a shared-memory word, so that the phase in it counts."),
    Column("itemsize", "", "Bytes of an element."),
    Column("rank", "", "Dimensions of the array."),
    Column("count", "", "Distinct accesses of one evaluation."),
    Column("accumulates", "", "Whether reductions repeat the access unless it is promoted to registers."),
    Column("promoted_times", "", "Accesses if promoted: 1 for loads of the first and stores of the last stage."),
    Column("coefficients", "QD", "Coefficient of each dimension in each index."),
    Column("quotient", "Q", "Floor divisor of each index."),
    Column("spread", "Q", "Largest less smallest constant of each index."),
    Column("affine_dims", "Q", "Whether the index is affine."),
    Column("moved_by", "QD", "Which dimensions each index that is not affine depends on."),
    Column("reach", "Q", "Distance that reductions move each index."),
    Column("reductions", "", "Terms of the reductions at each point."),
    Column("strides", "Q", "Elements between neighbours in global memory."),
    Column("origin", "Q", "Lowest point of the array in global memory."),
    Column("divided", "Q", "Positions of the indices with a floor division; -1 for padding."),
    Column("array_bytes", "", "Bytes of the array in the whole pipeline."),
    Column("point_elements", "", "Distinct elements of one evaluation."),
    Column("point_lines", "", "Contiguous rows of these elements."),
    Column("array", "", "Number of the array and component."),
    Column("clamped", "Q", "Whether a term, such as a clamp, vanishes from the index in the middle of the ranges."),
    Column("moving_reductions", "T", "Which of the nest's reductions move the address."),
    Column("is_input", "", "Whether the array is an input of the pipeline."),
    Column("by_data", "", "Whether an index depends on loaded data."),
    Column("atomic", "", "0 for plain accesses, 1 for atomic updates of integers, 2 for those of floats."),
)  # fmt: skip


def column_widths(columns: Sequence[Column], dims: int, ranks: int) -> Mapping[str, int]:
    """Return the integers of each column; 0 stands for one number without an axis of its own.

    Args:
        columns: The columns.
        dims: ``D``.
        ranks: ``Q``.
    """
    widths = {
        "": 0, "2": 2, "D": dims, "Q": ranks, "QD": ranks * dims, "T": MOST_REDUCTIONS, "T+D": MOST_REDUCTIONS + dims,
        "U": UNITS,
    }  # fmt: skip
    return {c.name: widths[c.width] for c in columns}
