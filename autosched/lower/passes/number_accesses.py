"""Number the access sites of a kernel."""

from __future__ import annotations

from autosched.lower.ir import For, LoopRole, Stmt, Value
from autosched.lower.ir_visitor import map_parts


def number_accesses(body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], tuple[int, ...]]:
    """Number the access sites from 0 in the order of the text.

    Returns:
        The statements, and for each site the number of serial loops around it.
    """
    depths: list[int] = []

    def site(depth: int) -> int:
        depths.append(depth)
        return len(depths) - 1

    def value(v: Value, depth: int) -> Value:
        return map_parts(v, values=lambda a: value(a, depth), sites=lambda _: site(depth))

    def statements(body: tuple[Stmt, ...], depth: int) -> tuple[Stmt, ...]:
        return tuple([statement(s, depth) for s in body])

    def statement(s: Stmt, depth: int) -> Stmt:
        inner = depth + (isinstance(s, For) and s.role is not LoopRole.THREAD)
        return map_parts(
            s,
            values=lambda v: value(v, depth),
            sites=lambda _: site(depth),
            bodies=lambda body: statements(body, inner),
        )

    return statements(body, 0), tuple(depths)
