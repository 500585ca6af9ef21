"""Loops of a kernel's machine code, with their instructions by opcode."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import networkx as nx

from sass.control_flow import END, Flow
from sass.instructions import Code


@dataclass(frozen=True)
class LoopCode:
    """The instructions of one loop, including nested loops.

    Attributes:
        header: Position of its first basic block's first instruction.
        blocks: First positions of its basic blocks.
        opcodes: Number of instructions by name, without modifiers.
        wide_shared_loads: Number of 16-byte loads from shared memory.
    """

    header: int
    blocks: frozenset[int]
    opcodes: Counter[str]
    wide_shared_loads: int

    @property
    def instructions(self) -> int:
        """Number of instructions of the loop."""
        return self.opcodes.total()

    def share(self, opcode: str) -> float:
        """Return the share of instructions with a name."""
        return self.opcodes[opcode] / self.instructions


def innermost_loops(code: Code) -> list[LoopCode]:
    """Return the innermost natural loops, by position."""
    graph = Flow(code).graph
    dominators = dict(nx.immediate_dominators(graph, 0))
    bodies: dict[int, set[int]] = {}
    for tail, header in graph.edges:
        if tail in dominators and header != END and _dominates(dominators, header, tail):
            bodies.setdefault(header, {header}).update(_body(graph, header, tail))
    inner = [h for h, body in bodies.items() if not any(other in body for other in bodies if other != h)]
    return [_loop(code, graph, h, bodies[h]) for h in sorted(inner)]


def whole(code: Code) -> LoopCode:
    """Return all instructions of a kernel as one loop."""
    graph = Flow(code).graph
    return _loop(code, graph, 0, {b for b in graph if b != END})


def _dominates(dominators: dict[int, int], header: int, block: int) -> bool:
    while block != header:
        above = dominators.get(block, block)
        if above == block:
            return False
        block = above
    return True


def _body(graph: nx.DiGraph[int], header: int, tail: int) -> set[int]:
    """Return the blocks that reach the loop's tail without passing its header."""
    blocks, open_ = {header}, [tail]
    while open_:
        block = open_.pop()
        if block not in blocks:
            blocks.add(block)
            open_.extend(graph.predecessors(block))
    return blocks


def _loop(code: Code, graph: nx.DiGraph[int], header: int, blocks: set[int]) -> LoopCode:
    within = [i for b in blocks for i in code.instructions[b : b + int(graph.nodes[b]["size"])]]
    wide = sum(i.opcode == "LDS" and i.has("128") for i in within)
    return LoopCode(header, frozenset(blocks), Counter(i.opcode for i in within), wide)
