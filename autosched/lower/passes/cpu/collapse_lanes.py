"""Collapse a loop over channels and the lane loop in it where they traverse contiguous elements (loop coalescing).

Images whose channels come last have lanes three elements apart, and one lane loop for each channel. Compilers permute
vectors for them. Where points do not differ but for their position, one loop runs over all elements of a row.

Rewrite:
    for c < 3: for lane < n: out[3*lane + c] = f(in[3*lane + c + 6])
    ->  for lane < 3*n: out[lane] = f(in[lane + 6])

Applies to loops over different dimensions; points of a thread along its lanes stay. Legal if both loops occur in
indices as ``3*lane + c`` alone, and the body reads no array that it writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.analysis.indices import index as ix
from autosched.lower.ir import Body, For, If, Let, LetIndex, LoopRole, Stmt, Store
from autosched.lower.ir_queries import access_steps, names_in_indices, names_in_value, reads_in
from autosched.lower.ir_visitor import map_indices, map_statements


def collapse_all(body: Body) -> Body:
    """Return statements in which each loop over channels is collapsed with its lane loop where that is legal.

    A guard between the two comes before the collapsed loop.
    """

    def collapsed(s: Stmt) -> Stmt:
        if not isinstance(s, For) or len(s.body) != 1:
            return s
        guard = s.body[0]
        if isinstance(guard, If) and not guard.orelse and s.name not in names_in_value(guard.condition):
            lanes = collapse_lanes(replace(s, body=guard.then))
            return replace(guard, then=(lanes,)) if lanes else s
        return collapse_lanes(s) or s

    return map_statements(body, collapsed)


def collapse_lanes(channels: For) -> For | None:
    """Return one lane loop in place of a loop around a lane loop; None if that is not legal.

    Args:
        channels: A loop.
    """
    if channels.role is not LoopRole.SERIAL or channels.extent < 2 or len(channels.body) != 1:
        return None
    lanes = channels.body[0]
    if not isinstance(lanes, For) or lanes.role is not LoopRole.THREAD or lanes.axis != 0 or lanes.few_points:
        return None
    if not channels.dim or channels.dim == lanes.dim:
        return None
    stores = [s for s in lanes.body if isinstance(s, Store)]
    if not all(isinstance(s, Let | LetIndex | Store) for s in lanes.body) or any(s.combine for s in stores):
        return None
    written = {s.buffer.name for s in stores}
    if not written.isdisjoint(r.buffer.name for r in reads_in(lanes.body)):
        return None
    if channels.upper_bounds or channels.lower_bounds or channels.name in names_in_indices(_bounds(lanes)):
        return None
    whole = _Collapse(channels.name, lanes.name, channels.extent, channels.extent * lanes.extent)
    body = tuple(map_indices(s, whole.index) for s in lanes.body)
    collapsed = replace(
        lanes, extent=whole.lanes, body=body, comment=f"{channels.comment}; {lanes.comment}",
        upper_bounds=tuple(ix.scale(e, channels.extent) for e in lanes.upper_bounds),
        lower_bounds=tuple(ix.scale(e, channels.extent) for e in lanes.lower_bounds),
    )  # fmt: skip
    moves = all(step for buffer, step in access_steps(collapsed) if buffer.name in written)
    return collapsed if whole.is_legal and moves else None


@dataclass
class _Collapse:
    """Indices of a collapsed loop.

    Attributes:
        channel: Variable of the outer loop.
        lane: Variable of the lane loop, and of the collapsed one.
        channels: Iterations of the outer loop.
        lanes: Iterations of the collapsed loop.
        is_legal: Whether all indices so far have the two loops as ``channels * lane + channel`` alone.
    """

    channel: str
    lane: str
    channels: int
    lanes: int
    is_legal: bool = True

    def index(self, e: ix.Index) -> ix.Index:
        """Return an index with the variable of the collapsed loop."""
        loops = {t.name: (t, c) for t, c in ix.terms_of(e) if isinstance(t, ix.LoopVar)}
        rest = e
        scales = []
        for name in (self.lane, self.channel):
            term, scale = loops.get(name, (None, 0))
            scales.append(scale)
            if term is not None:
                rest = ix.sub(rest, ix.scale(ix.Affine(((term, 1),), 0), scale))
        of_lane, of_channel = scales
        apart = of_lane == self.channels * of_channel and not names_in_indices([rest]) & {self.lane, self.channel}
        self.is_legal &= apart
        moved: ix.Index = ix.add(rest, ix.scale(ix.var(self.lane, 0, self.lanes - 1), of_channel))
        return moved


def _bounds(loop: For) -> tuple[ix.Index, ...]:
    return (*loop.upper_bounds, *loop.lower_bounds)
