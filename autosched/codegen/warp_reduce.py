"""Warp reductions: shuffles in CUDA, loops over a row of lanes in C, with the same order of operations."""

from __future__ import annotations

from autosched.codegen.expressions import index_text, loaded, local_type, storage_type, value_text
from autosched.codegen.statements import Writer, stored, strip_parentheses
from autosched.lower.ir import Op, VarRef, WarpReduce

WARP = 32
ALL_LANES = "0xffffffffu"


def print_shuffle(s: WarpReduce, w: Writer, *, whole_warps: bool) -> None:
    """Print a warp reduction as CUDA C.

    Args:
        s: The statement.
        w: The writer.
        whole_warps: Whether all threads of the block execute it, in full warps.
    """
    t, b = storage_type(s.buffer.dtype), s.buffer
    assert b.dtype.bytes_ in (4, 8), f"shuffles exchange 4 or 8 bytes, not {b.dtype}"
    lanes = ALL_LANES if whole_warps or s.width == WARP else f"LANES({s.width}u)"
    w.open(f"{{  // {s.width} lanes combine what they have")
    w.line(f"{t} as_own = LOAD({s.load_site}, {b.name}, {index_text(s.index)});")
    w.line("UNROLL")
    w.open(f"for (int as_distance = {s.width // 2}; as_distance > 0; as_distance /= 2) {{")
    w.line(f"const {t} as_other = SHUFFLE({t}, as_own, as_distance, {lanes});")
    w.line(f"as_own = {_combined(s)};")
    w.close()
    w.line(f"STORE({s.site}, {b.name}, {index_text(s.index)}, as_own);")
    w.close()


def print_lane_loop_reduce(s: WarpReduce, w: Writer) -> None:
    """Print a warp reduction as C for all lanes of a row; ``s.index`` is the first of their contiguous elements."""
    b, first = s.buffer, index_text(s.index)
    t = local_type(b.dtype)
    at = "" if first == "0" else f"{first} + "
    w.open(f"for (int as_distance = {s.width // 2}; as_distance > 0; as_distance /= 2) {{  // {s.width} lanes")
    w.line(f"{t} as_all[{s.width}];")
    w.open(f"for (int as_lane = 0; as_lane < {s.width}; as_lane++) {{")
    own, other = (f"LOAD({s.load_site}, {b.name}, {at}{lane})" for lane in ("as_lane", "(as_lane ^ as_distance)"))
    w.line(f"const {t} as_own = {loaded(own, b.dtype)};")
    w.line(f"const {t} as_other = {loaded(other, b.dtype)};")
    w.line(f"as_all[as_lane] = {_combined(s)};")
    w.close()
    w.open(f"for (int as_lane = 0; as_lane < {s.width}; as_lane++) {{")
    w.line(f"STORE({s.site}, {b.name}, {at}as_lane, {stored(VarRef('as_all[as_lane]', b.dtype), b.dtype)});")
    w.close()
    w.close()


def _combined(s: WarpReduce) -> str:
    d = s.buffer.dtype
    return strip_parentheses(value_text(Op(s.op, (VarRef("as_own", d), VarRef("as_other", d)), d)))
