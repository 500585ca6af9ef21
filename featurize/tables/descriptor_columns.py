"""Columns of the descriptor tables: name, width and meaning of each static fact about nests and accesses.

Widths are one number (``""``), or a product of ``D`` (dimensions of nests), ``Q`` (dimensions of arrays), ``T``
(`MOST_REDUCTIONS`, the reductions of `reduction_extents`) and ``U`` (units of `arithmetic_work`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autosched.featurize.instructions.arithmetic_work import UNITS
from autosched.featurize.instructions.reduction_loops import MOST_REDUCTIONS


class DescriptorColumn(NamedTuple):
    """One column: its name, its width and one sentence on its meaning."""

    name: str
    width: str
    meaning: str


_NESTS: Sequence[tuple[str, str, str]] = (
    ("level", "", "ROOT, BLOCK or THREAD."),
    ("ndims", "", "Dimensions of the nest outside reductions; further ones are padding."),
    ("looped", "D", "Whether the stage has a loop over the dimension; updates may lack some."),
    ("order", "D", "Positions of the dimensions in the order of threadIdx.x, y, z; -1 for padding."),
    ("sizes", "D", "Points of the dimension that a root kernel's blocks divide."),
    ("lows", "D", "Lowest of these points."),
    ("domain_low", "D", "Lowest point of the Func; 0 if the dimension is not one of its own."),
    ("domain_high", "D", "Highest point of the Func; `UNLIMITED` if the dimension is not one of its own."),
    ("storage", "D", "The Func's dimensions from fastest to slowest in memory; -1 for padding."),
    ("storage_item", "", "Bytes of an element of the Func's first component."),
    ("reductions", "", "Terms of all reductions inside a thread."),
    ("promotion", "", "NEVER, IF_SMALL or ALWAYS: when points are promoted to registers."),
    ("components", "", "Tuple components of the Func."),
    ("leading", "", "Whether the stage is the first of a fused thread nest."),
    ("bytes", "", "Bytes of one point, all components."),
    ("func_points", "", "Points of the Func in the whole pipeline."),
    ("written_points", "", "Points that the stage writes in the whole pipeline, or in one step of a row scan."),
    ("fastest", "", "Position of the dimension that is fastest in memory; -1 if the nest has none."),
    ("func_fastest", "", "Points of the Func along its fastest dimension."),
    ("inside_reductions", "D", "Whether the loop over the dimension is inside all reductions."),
    ("innermost", "", "Position of the innermost dimension of code without threads."),
    ("branching", "", "Strahler number of the stage's expression."),
    ("loads", "", "Loads of one evaluation, inlined Funcs included."),
    ("operations", "U", "Operations of one evaluation by unit."),
    ("integer_instructions", "2", "Integer instructions of one evaluation: of all code, of boundary code only."),
    ("float_instructions", "", "Single-precision instructions of one evaluation."),
    ("invariant", "", "Position of the dimension that invariant operations do not depend on; -1 if there are none."),
    ("invariant_operations", "U", "Operations by unit that are hoisted out of that dimension's loop."),
    ("invariant_floats", "", "Single-precision instructions that are hoisted out of that dimension's loop."),
    ("code_size", "", "Operations of the code of one point."),
    ("register_blocked", "", "Whether the nest accumulates the pipeline's register-blocked Func."),
    ("terms", "T", "Iterations of the reductions inside a thread, outermost first."),
    ("loop_order", "T+D", "Positions of reductions, then dimensions, from the outermost loop inwards."),
    ("fixed_threads", "D", "Threads of an update with a tile of its own; 0 elsewhere."),
    ("fixed_points", "D", "Points per thread of an update with a tile of its own; 0 elsewhere."),
    ("interleaved", "D", "Whether neighbouring points of the dimension belong to neighbouring threads."),
    ("private", "", "Whether each thread keeps the Func's elements that it computes in registers."),
    ("indexes_registers", "", "Whether the nest accesses private producers, so that its loops are unrolled."),
    ("over_terms", "D", "Whether the dimension is over terms of a reduction, not points of the Func."),
    ("slides", "D", "Whether the dimension is that along which a sliding window moves the step's rows."),
    ("kept_steps", "", "Steps whose rows the Func's buffer keeps, in one step of sliding windows; 0 elsewhere."),
    ("register_rows", "", "Rows that a private sliding window has in a thread's registers; 0 elsewhere."),
    ("shared_rows", "", "Rows that a private sliding window has in shared memory; 0 elsewhere."),
    ("lanes", "D", "Whether the dimension is over the lanes of a warp reduction."),
    ("shuffles", "", "Shuffles of one point's warp reduction."),
    ("combine_operations", "U", "Operations of one point's warp reduction by unit."),
)  # fmt: skip

_ACCESSES: Sequence[tuple[str, str, str]] = (
    ("table", "", "Number of the offset table."),
    ("cache_class", "", "Number of the class of groups with the same offset table, byte strides and direction."),
    ("memory", "", "GLOBAL, SHARED or REGISTER."),
    ("placed", "", "Whether the array has a layout in this memory yet."),
    ("store", "", "Whether the group stores."),
    ("own", "", "Whether a stage accesses its own Func."),
    ("affine", "", "Whether all indices are affine."),
    ("exact", "", "Whether the affine form gives the address of every interior point."),
    ("everywhere", "", "Whether no index loses a term in the middle of the loops' ranges."),
    ("divides", "", "Whether an index has a floor division."),
    ("phased", "", "Whether elements are smaller than a shared-memory word, so that the phase in it counts."),
    ("itemsize", "", "Bytes of an element."),
    ("rank", "", "Dimensions of the array."),
    ("count", "", "Distinct accesses of one evaluation."),
    ("accumulates", "", "Whether reductions repeat the access unless it is promoted to registers."),
    ("promoted_times", "", "Accesses if promoted: 1 for loads of the first and stores of the last stage."),
    ("coefficients", "QD", "Coefficient of each dimension in each index."),
    ("quotient", "Q", "Floor divisor of each index."),
    ("spread", "Q", "Largest less smallest constant of each index."),
    ("affine_dims", "Q", "Whether the index is affine."),
    ("moved_by", "QD", "Which dimensions each index that is not affine depends on."),
    ("reach", "Q", "Distance that reductions move each index."),
    ("reductions", "", "Terms of the reductions at each point."),
    ("strides", "Q", "Elements between neighbours in global memory."),
    ("origin", "Q", "Lowest point of the array in global memory."),
    ("divided", "Q", "Positions of the indices with a floor division; -1 for padding."),
    ("array_bytes", "", "Bytes of the array in the whole pipeline."),
    ("point_elements", "", "Distinct elements of one evaluation."),
    ("point_lines", "", "Contiguous rows of these elements."),
    ("array", "", "Number of the array and component."),
    ("clamped", "Q", "Whether a term, such as a clamp, vanishes from the index in the middle of the ranges."),
    ("moving_reductions", "T", "Which of the nest's reductions move the address."),
    ("is_input", "", "Whether the array is an input of the pipeline."),
    ("by_data", "", "Whether an index depends on loaded data."),
    ("atomic", "", "0 for plain accesses, 1 for atomic updates of integers, 2 for those of floats."),
)  # fmt: skip

NEST_COLUMNS = tuple(DescriptorColumn(*row) for row in _NESTS)
ACCESS_COLUMNS = tuple(DescriptorColumn(*row) for row in _ACCESSES)


def column_widths(columns: Sequence[DescriptorColumn], dims: int, ranks: int) -> Mapping[str, int]:
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
