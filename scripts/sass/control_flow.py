"""Basic blocks of a kernel, and the shorter path of a branch."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from sass.instructions import TRUE, Code, Instruction, Kind

END = -1
"""Virtual exit block of every path."""
_NO_RETURN = frozenset({"EXIT", "RET", "BRA", "JMP"})


def branch_target(code: Code, i: Instruction) -> int | None:
    """Return the target position of a branch or call, or None for any other instruction."""
    if i.opcode not in ("BRA", "CALL", "JMP"):
        return None
    label = next((o for o in i.operands if o.kind is Kind.LABEL), None)
    return None if label is None else code.labels[label.text]


def is_conditional(i: Instruction) -> bool:
    """Whether control may fall through a branch."""
    guards = [o for o in i.operands if o.kind is Kind.PREDICATE]
    return any(g.number != TRUE or g.negated for g in (*guards, *((i.guard,) if i.guard else ())))


@dataclass(frozen=True)
class Flow:
    """The control flow of a kernel."""

    code: Code

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Position of the first instruction of each basic block."""
        positions = {0, *(p for p in self.code.labels.values() if p < len(self.code.instructions))}
        for k, i in enumerate(self.code.instructions):
            target = branch_target(self.code, i)
            if target is not None:
                positions.add(target)
            if i.opcode in _NO_RETURN or target is not None:
                positions.add(k + 1)
        return tuple(sorted(p for p in positions if p < len(self.code.instructions)))

    @cached_property
    def graph(self) -> nx.DiGraph[int]:
        """Basic blocks by their first position; a call continues behind it, as the subroutine returns."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_node(END)
        ends = [*self.starts[1:], len(self.code.instructions)]
        for start, end in zip(self.starts, ends, strict=True):
            last = self.code.instructions[end - 1]
            target = branch_target(self.code, last)
            following = end if end < len(self.code.instructions) else END
            graph.add_node(start, size=end - start)
            if target is not None and last.opcode != "CALL":
                graph.add_edge(start, target if target < len(self.code.instructions) else END)
            if last.opcode in ("EXIT", "RET"):
                graph.add_edge(start, END)
            if last.opcode not in _NO_RETURN or is_conditional(last):
                graph.add_edge(start, following)
        return graph

    @cached_property
    def _joins(self) -> dict[int, int]:
        """The immediate postdominator of each block."""
        reverse = self.graph.reverse()
        return dict(nx.immediate_dominators(reverse, END))

    def shorter_is_taken(self, position: int) -> bool:
        """Whether the branch at a position reaches the join of its paths by fewer instructions if it is taken."""
        start = max(s for s in self.starts if s <= position)
        target = branch_target(self.code, self.code.instructions[position])
        if target is None:
            raise ValueError(f"{self.code.instructions[position]} is not a branch")
        join = self._joins.get(start, END)
        taken = self._distance(target if target < len(self.code.instructions) else END, join)
        return taken < self._distance(position + 1, join)

    def _distance(self, start: int, end: int) -> float:
        """Return the instructions of the shortest path, with calls more expensive than any path around them."""
        best = {start: 0.0}
        queue = [(0.0, start)]
        while queue:
            cost, block = heapq.heappop(queue)
            if block == end:
                return cost
            if block == END or cost > best[block]:
                continue
            cost += self._cost(block)
            for following in self.graph.successors(block):
                if cost < best.get(following, float("inf")):
                    best[following] = cost
                    heapq.heappush(queue, (cost, following))
        return float("inf")

    def _cost(self, block: int) -> float:
        size = int(self.graph.nodes[block]["size"])
        calls = any(i.opcode == "CALL" for i in self.code.instructions[block : block + size])
        return size + len(self.code.instructions) * calls
