"""Number the access sites of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.lower.ir import For, LoopRole, Stmt, Value
from autosched.lower.ir_visitor import map_parts


def number_accesses(body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], tuple[int, ...]]:
    """Number the access sites from 0 in the order of the text.

    Returns:
        The statements, and for each site the number of serial loops around it.
    """
    numbering = _Numbering()
    return numbering.statements(body), tuple(numbering.depths)


@dataclass
class _Numbering:
    """Numbers accesses in order; ``depth`` is the number of serial loops around the current statement."""

    depths: list[int] = field(default_factory=list)
    depth: int = 0

    def statements(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple([self._statement(s) for s in body])

    def _statement(self, s: Stmt) -> Stmt:
        is_serial = isinstance(s, For) and s.role is not LoopRole.THREAD
        self.depth += is_serial
        numbered = map_parts(s, values=self._value, sites=self._site, bodies=self.statements)
        self.depth -= is_serial
        return numbered

    def _value(self, v: Value) -> Value:
        return map_parts(v, values=self._value, sites=self._site)

    def _site(self, _: int) -> int:
        self.depths.append(self.depth)
        return len(self.depths) - 1
