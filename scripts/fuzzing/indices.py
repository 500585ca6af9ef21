"""Random indices as text: near, resampled, mirrored, diagonal, selected, data-dependent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzzing.writer import Source, at

if TYPE_CHECKING:
    from fuzzing.expressions import Scope

FORMS = (
    "{v} + 1", "{v} - 1", "{v} - 2", "{v} // 2", "{v} // 4", "2 * {v}", "2 * {v} + 1", "7 - {v}", "{v} % 5",
    "au.clamp({v}, 0, 6)", "au.select({v} < 3, {v}, 5)", "au.select({v} < {w}, {v}, {w})", "au.abs({v} - 3)",
    "{v} - {w}", "{v} + {w}", "0", "3", "{v} >> 1", "{v} & 3", "au.min({v}, {w} + 1)", "({v} + {w}) // 2",
    "au.select({v} < 4, {v}, {v} + {w}) // 4", "({v} - 1) // 3", "{v} % -4", "au.max({v}, {w}) // 2",
    "au.select({v} % 2 == 0, {v}, {v} - 1)", "5 + ~({v} % 4)", "au.select({v} < {w}, {v} // 2, 2 * {w})",
)  # fmt: skip
GUIDED = (
    'au.clamp(au.cast("int32", {d}), 0, 9)', 'au.cast("int32", {d}) % 6', '{v} + au.cast("int32", {d}) % 3',
    'au.clamp({v} + au.cast("int32", {d}) % 4, -3, 20)', '(au.cast("int32", {d}) >> 4) & 7',
    'au.cast("uint8", {d})', '{v} - au.cast("uint8", {d})', 'au.cast("int8", {d})', '{v} + au.cast("bool", {d})',
    'au.clamp(au.cast("int64", {d}), 0, 5)', 'au.clamp(au.cast("uint32", {d}), 0, 11)',
    'au.select({d} > 1, {v}, {w})',
)  # fmt: skip


def index(s: Scope, v: str, w: str) -> str:
    """Return an index of a coordinate ``v`` and, in some forms, a second one ``w``."""
    if not s.moves or s.writer.chance(50):
        return v
    data = [i for i in s.writer.sources if i.components == 1 and i.ndim <= len(s.coords)]
    if data and s.writer.chance(20):
        source = s.writer.pick(data)
        value = at(source.name, s.coords[len(s.coords) - source.ndim :])
        return s.writer.pick(GUIDED).format(v=_factor(v), w=_factor(w), d=value)
    if s.writer.bounds and s.writer.chance(25):
        return f"{v} + {s.writer.pick(s.writer.bounds)}"
    return s.writer.pick(FORMS).format(v=_factor(v), w=_factor(w))


def indices_for(s: Scope, source: Source) -> list[str]:
    """Return indices for a source of any rank: trailing dimensions match, sometimes transposed or shifted.

    Indices of an Input are clamped to its shape.
    """
    coords = list(s.coords)
    if s.moves and len(coords) > 1 and s.writer.chance(8):
        coords.reverse()
    missing = max(source.ndim - len(coords), 0)
    used = [str(s.writer.integer(0, 2)) for _ in range(missing)] + coords[max(len(coords) - source.ndim, 0) :]
    indices = [index(s, v, s.writer.pick(coords) if coords else "0") if k >= missing else v for k, v in enumerate(used)]
    if source.shape is None:
        return indices
    return [f"au.clamp({text}, 0, {source.name}.shape[{k}] - 1)" for k, text in enumerate(indices)]


def _factor(v: str) -> str:
    return v if v.replace("_", "").replace(".", "").isalnum() else f"({v})"
