"""Instructions of index arithmetic, each hoisted to the outermost loop with all of its operands.

Compilers fold the constant offsets of unrolled iterations into the instructions; the common part is computed once,
outside of the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.analysis.indices import index as ix
from autosched.codegen.expressions import is_wide
from autosched.lower.ir import Buffer, LoopRole

_DIVIDE = 4.0
_DIVIDE_SIGNED = 6.0
"""Instructions of a floor division by a constant other than a power of two (see `operations`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A loop body or a thread nest.

    Attributes:
        depth: Loops around it.
        executions: Executions by warps, weighted by the represented warps.
        copies: Copies in the unrolled text.
    """

    depth: int
    executions: float
    copies: float


@dataclass
class IndexCosts:
    """Counts the integer instructions of one kernel body.

    Attributes:
        executed: Instructions of warps, weighted.
        written: Instructions in the text.
    """

    executed: float = 0.0
    written: float = 0.0
    _frames: dict[str, Frame] = field(default_factory=dict)
    _free: set[str] = field(default_factory=set)
    _charged: set[tuple[int, str]] = field(default_factory=set)
    _root: Frame = field(default_factory=lambda: Frame(-1, 0.0, 1.0))

    def enter(self, name: str, frame: Frame, role: LoopRole) -> None:
        """Begin a loop, whose variable is defined in ``frame``."""
        self._frames[name] = frame
        if role is LoopRole.UNROLLED:
            self._free.add(name)
        else:
            self._free.discard(name)

    def begin(self, frame: Frame) -> None:
        """Begin a thread nest, which computes block-uniform indices."""
        self._root = frame
        self._charged.clear()

    def bind(self, name: str, e: ix.Index, here: Frame) -> None:
        """Bind the name of an index."""
        self._frames[name] = self.charge(e, here)
        self._free.discard(name)

    def address(self, buffer: Buffer, e: ix.Index, here: Frame) -> None:
        """Count an address: one base for all accesses that differ by a constant, which is an immediate operand."""
        frame = self.charge(e, here)
        linear = ix.sub(e, e.const) if isinstance(e, ix.Affine) else 0
        if isinstance(linear, ix.Affine):
            self._add(f"{buffer.name}[{linear.key}]", 1.0, frame)

    def charge(self, e: ix.Index, here: Frame) -> Frame:
        """Count an index once, and return the frame that defines it.

        Args:
            e: The index.
            here: The innermost loop body around it.
        """
        if not isinstance(e, ix.Affine):
            return self._root
        frame, count = self._root, 0.0
        parts: list[str] = []
        for t, c in e.terms:
            if isinstance(t, ix.LoopVar):
                if t.name in self._free:
                    continue
                of_term = self._frames.get(t.name, self._root)
            else:
                of_term = self._atom(t, here)
            frame = of_term if of_term.depth > frame.depth else frame
            count += 1.0 if c != 1 or parts else 0.0
            parts.append(f"{c}*{t.key}")
        if count:
            self._add("+".join(parts), count * (2.0 if is_wide(e) else 1.0), frame)
        return frame

    def _atom(self, t: ix.Atom, here: Frame) -> Frame:
        if t.kind == "data":
            self._add(t.key, 1.0, here)
            return here
        frame = here if t.kind == "select" else self._root
        for a in t.args:
            of_argument = self.charge(a, here)
            frame = of_argument if of_argument.depth > frame.depth else frame
            for inner in ix.terms_of(a):  # offsets of unrolled iterations do not fold into a clamp or a quotient
                if isinstance(inner[0], ix.LoopVar) and inner[0].name in self._free:
                    loop = self._frames[inner[0].name]
                    frame = loop if loop.depth > frame.depth else frame
        self._add(t.key, _atom_count(t), frame)
        return frame

    def _add(self, key: str, count: float, frame: Frame) -> None:
        if (id(frame), key) not in self._charged:
            self._charged.add((id(frame), key))
            self.executed += count * frame.executions
            self.written += count * frame.copies


def _atom_count(t: ix.Atom) -> float:
    if t.kind not in ("div", "mod"):
        return 1.0
    if t.payload & (t.payload - 1) == 0:
        return 1.0
    return (_DIVIDE if ix.interval(t.args[0])[0] >= 0 else _DIVIDE_SIGNED) + (t.kind == "mod")
