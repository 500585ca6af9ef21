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
    assert b.dtype.bytes_ in (4, 8) and s.width <= WARP, f"no shuffle of {b.dtype} between {s.width} lanes"
    lanes = ALL_LANES if whole_warps or s.width == WARP else f"LANES({s.width}u)"
    w.open(f"{{  // {s.width} lanes combine what they have")
    w.line(f"{t} as_own = LOAD({s.load_site}, {b.name}, {index_text(s.index)});")
    w.line("UNROLL")
    w.open(f"for (int as_distance = {s.width // 2}; as_distance > 0; as_distance /= 2) {{")
    w.line(f"const {t} as_other = SHUFFLE({t}, as_own, as_distance, {lanes});")
    w.line(f"as_own = {strip_parentheses(value_text(_combined(s)))};")
    w.close()
    w.line(f"STORE({s.site}, {b.name}, {index_text(s.index)}, as_own);")
    w.close()


def print_lane_loop_reduce(s: WarpReduce, w: Writer) -> None:
    """Print a warp reduction as C for a row of lanes; ``s.index`` is the first of their contiguous elements.

    The first lane gets the bits that it gets from shuffles. No other lane is read afterwards.
    """
    b, first = s.buffer, index_text(s.index)
    t = local_type(b.dtype)
    at = "" if first == "0" else f"{first} + "
    distance = s.width // 2
    while distance:
        own, other = (f"LOAD({s.load_site}, {b.name}, {at}{lane})" for lane in ("as_lane", f"as_lane + {distance}"))
        w.open(f"for (int as_lane = 0; as_lane < {distance}; as_lane++) {{  // lanes {distance} apart")
        w.line(f"const {t} as_own = {loaded(own, b.dtype)};")
        w.line(f"const {t} as_other = {loaded(other, b.dtype)};")
        w.line(f"STORE({s.site}, {b.name}, {at}as_lane, {stored(_combined(s), b.dtype)});")
        w.close()
        distance //= 2


def _combined(s: WarpReduce) -> Op:
    d = s.buffer.dtype
    return Op(s.op, (VarRef("as_own", d), VarRef("as_other", d)), d)
