"""Execute a block's control flow and index arithmetic, with values from memory unknown.

Every integer instruction is executed for all threads of the block; values read from memory, or computed from such
values, are unknown. Branches, loops and addresses of affine programs are independent of them, so the issue counts and
addresses of instructions are exact. A data-dependent branch takes its shorter path (past the slow path of a division,
for instance) and counts as undecided.

Time, caches and the order of threads are not modelled; the order changes no count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sass.control_flow import Flow, branch_target
from sass.instructions import BYTES, PREDICATES, REGISTERS, TRUE, ZERO, Code, Instruction, Kind, Operand
from sass.integers import MASK, MEANING, Flags, Sources, Words
from sass.memory import WARP, Traffic, access_bytes, count_requests, parse_address
from sass.operands import half_words, split_operands

MAX_ISSUED = 200_000_000
"""Instructions of all threads after which a loop counts as endless."""
_LOADS = {"LDG": False, "LDS": True, "LD": False}
_STORES = {"STG": False, "STS": True, "ST": False, "RED": False}
_Outcome = tuple[list[Words] | None, list[Flags] | None, Flags]
_NO_RESULT = frozenset(
    {"BSSY", "BSYNC", "BREAK", "BAR", "NOP", "WARPSYNC", "YIELD", "MEMBAR", "ERRBAR", "CCTL", "DEPBAR"}
)
"""Barriers and hints. BSSY, BSYNC and BREAK are of convergence barriers, and leave the position of a thread alone."""


class MachineError(Exception):
    """Code that this machine cannot execute."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch configuration of a kernel.

    Attributes:
        grid: Blocks in x, y and z.
        block: Threads in x, y and z.
        constants: Words of constant bank 0, by byte offset: sizes and parameters.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    constants: Mapping[int, int]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return int(np.prod(self.block))


@dataclass
class Execution:
    """Counts of one block.

    Attributes:
        threads: Threads of the block.
        issued: Executions of each instruction by threads.
        warps: Executions of each instruction by warps, the issue count of the hardware.
        indexing: Number of ``issued`` with results that depend on indices and parameters alone.
        undecided: Branches that depended on data, by position, in threads.
        memory: Traffic, of ``global`` and ``shared`` memory.
    """

    threads: int
    issued: Words
    warps: Words
    indexing: Words
    undecided: Counter[int] = field(default_factory=Counter)
    memory: dict[str, Traffic] = field(default_factory=lambda: {"global": Traffic(), "shared": Traffic()})


def run_block(code: Code, launch: Launch, block: tuple[int, int, int]) -> Execution:
    """Run one block.

    Args:
        code: The kernel.
        launch: Its launch.
        block: Index of the block in x, y and z.

    Raises:
        MachineError: At a jump to an address that depends on data, or in an endless loop.
    """
    return _Machine(code, launch, block).run()


class _Machine:
    def __init__(self, code: Code, launch: Launch, block: tuple[int, int, int]) -> None:
        self.code, self.launch = code, launch
        self.flow = Flow(code)
        n = launch.threads
        self.values = np.zeros((REGISTERS, n), np.int64)
        self.known = np.zeros((REGISTERS, n), bool)
        self.known[ZERO] = True
        self.flags = np.zeros((PREDICATES, n), bool)
        self.flags_known = np.zeros((PREDICATES, n), bool)
        self.flags[TRUE] = self.flags_known[TRUE] = True
        thread = np.arange(n)
        x, y, _ = launch.block
        self.special = {
            "SR_TID.X": thread % x, "SR_TID.Y": thread // x % y, "SR_TID.Z": thread // (x * y),
            "SR_CTAID.X": block[0], "SR_CTAID.Y": block[1], "SR_CTAID.Z": block[2],
            "SR_LANEID": thread % WARP, "SR_CgaCtaId": 0, "SRZ": 0,
        }  # fmt: skip
        self.pc = np.zeros(n, np.int64)
        length = len(code.instructions)
        self.result = Execution(n, np.zeros(length, np.int64), np.zeros(length, np.int64), np.zeros(length, np.int64))
        self.addresses = {
            k: parse_address(i.address.text) for k, i in enumerate(code.instructions) if i.address is not None
        }
        self.split = [split_operands(i) for i in code.instructions]
        self.issued = 0

    def run(self) -> Execution:
        end = len(self.code.instructions)
        while True:
            at = int(self.pc.min())  # the lowest position runs first, so that threads reconverge where paths join
            if at >= end:
                return self.result
            lanes = self.pc == at
            self.issued += int(lanes.sum())
            if self.issued > MAX_ISSUED:
                raise MachineError(f"{self.code.name}: more than {MAX_ISSUED} instructions of one block")
            self._step(at, lanes)

    def _step(self, at: int, lanes: Flags) -> None:
        i = self.code.instructions[at]
        self.result.issued[at] += int(lanes.sum())
        self.result.warps[at] += np.count_nonzero(np.logical_or.reduceat(lanes, np.arange(0, len(lanes), WARP)))
        guard, guard_known = self._guard(i)
        self.pc[lanes] = at + 1
        if i.opcode in ("BRA", "CALL", "JMP", "RET", "EXIT"):
            self._jump(at, i, lanes, guard, guard_known)
        elif i.opcode in ("BRX", "JMX", "KILL"):
            raise MachineError(f"{self.code.name}: unsupported instruction {i}")
        elif i.opcode not in _NO_RESULT:
            acting = lanes & (guard | ~guard_known)
            if i.opcode in _LOADS or i.opcode in _STORES:
                self._access(at, i, acting)
            self._compute(at, i, lanes, acting, guard_known)

    def _guard(self, i: Instruction) -> tuple[Flags, Flags]:
        return self._flag(i.guard) if i.guard is not None else (self.flags[TRUE], self.flags_known[TRUE])

    def _flag(self, o: Operand) -> tuple[Flags, Flags]:
        return self.flags[o.number] ^ o.negated, self.flags_known[o.number]

    def _jump(self, at: int, i: Instruction, lanes: Flags, guard: Flags, guard_known: Flags) -> None:
        taken, known = guard, guard_known
        for o in i.operands:
            if o.kind is Kind.PREDICATE:
                flag, flag_known = self._flag(o)
                # a known false operand decides
                known = (known & flag_known) | (known & ~taken) | (flag_known & ~flag)
                taken = taken & flag
        if i.has("DIV"):  # only while threads of a warp have diverged
            return
        open_ = lanes & ~known
        if open_.any():
            self.result.undecided[at] += int(open_.sum())
            shorter = i.opcode == "BRA" and self.flow.shorter_is_taken(at)
            taken = np.where(known, taken, shorter)
        going = lanes & taken
        if i.opcode == "EXIT":
            self.pc[going] = len(self.code.instructions)
        elif i.opcode == "RET":
            register = next(o.number for o in i.operands if o.kind is Kind.REGISTER)
            if not self.known[register][going].all():
                raise MachineError(f"{self.code.name}: {i} returns to an unknown position")
            self.pc[going] = self.values[register][going] // BYTES
        else:
            target = branch_target(self.code, i)
            if target is None:
                raise MachineError(f"{self.code.name}: no target of {i}")
            self.pc[going] = target

    def _access(self, at: int, i: Instruction, acting: Flags) -> None:
        shared = (_LOADS | _STORES)[i.opcode]
        traffic = self.result.memory["shared" if shared else "global"]
        what = "loads" if i.opcode in _LOADS else "stores"
        parsed = self.addresses[at]
        total = np.full(len(acting), parsed.offset, np.int64)
        known = np.ones(len(acting), bool)
        for register, scale, wide in parsed.registers:
            word = self.values[register]
            if wide and register != ZERO:
                word = word | (self.values[register + 1] << 32)
                known = known & self.known[register + 1]
            elif not shared and len(parsed.registers) == 1:
                word = np.where(word >= 1 << 31, word - (MASK + 1), word)
            total += word * scale
            known = known & self.known[register]
        hidden = acting & ~known
        if hidden.any():
            traffic.unknown[what] += len(np.unique(np.flatnonzero(hidden) // WARP))
        count_requests(traffic, what, shared, access_bytes(i), total, acting & known)

    def _compute(self, at: int, i: Instruction, lanes: Flags, acting: Flags, guard_known: Flags) -> None:
        """Execute an instruction that writes registers or predicates; unsupported results become unknown."""
        if i.opcode in _STORES:
            return
        registers, predicates, sources, flags = self.split[at]
        words, word_flags, known = self._evaluate(i, sources, flags, len(registers))
        indexing = lanes & known & guard_known
        self.result.indexing[at] += int(indexing.sum())
        known = known & guard_known
        for k, r in enumerate(registers):
            if r != ZERO:
                self._write(self.values, self.known, r, words[k] if words else None, acting, known)
        for k, p in enumerate(predicates):
            if p != TRUE:
                self._write(self.flags, self.flags_known, p, word_flags[k] if word_flags else None, acting, known)

    @staticmethod
    def _write(to: Any, to_known: Any, k: int, value: Any, acting: Flags, known: Flags) -> None:
        if value is None:
            to_known[k] &= ~acting
            return
        to[k] = np.where(acting, value, to[k])
        to_known[k] = np.where(acting, known, to_known[k])

    def _evaluate(self, i: Instruction, sources: list[Operand], flags: list[Operand], width: int) -> _Outcome:
        """Return words and predicates, with masks of known values."""
        n = self.result.threads
        constant = self._constant_words(i, sources, width)
        if constant is not None:
            return [np.broadcast_to(np.asarray(w, np.int64), (n,)) for w in constant], None, np.ones(n, bool)
        meaning = MEANING.get(i.opcode)
        if meaning is None or any(o.kind is Kind.OTHER for o in sources):
            return None, None, np.zeros(n, bool)
        read = [self._word(o) for o in sources]
        read_flags = [self._flag(o) for o in flags]
        high = list(read)
        if i.opcode in ("IMAD", "UIMAD") and (i.has("WIDE") or i.has("HI")):  # the addend has 64 bits
            high[2] = self._high(sources[2])
        known = np.logical_and.reduce([np.ones(n, bool), *(f for _, f in (*read, *read_flags, *high))])
        signs = [o.negated for o in sources], [o.inverted for o in sources]
        words = Sources([w for w, _ in read], [w for w, _ in high], *signs, [f for f, _ in read_flags])
        found = meaning(i, words)
        if found is None:
            return None, None, np.zeros(n, bool)
        return list(found.words), list(found.flags), known

    def _constant_words(self, i: Instruction, sources: list[Operand], width: int) -> list[Any] | None:
        """Return the words of an instruction that reads constants but no register, or None."""
        if i.opcode in ("S2R", "S2UR", "CS2R"):
            value = self.special.get(i.operands[1].text)
            return None if value is None else [value, 0]
        if i.opcode in ("LDC", "ULDC") and sources and sources[0].kind is Kind.CONSTANT:
            words = [self._constant(sources[0].number + 4 * k) for k in range(width)]
            return None if None in words else words
        if i.opcode == "HFMA2" and [o.text.lstrip("-") for o in i.operands[1:3]] == ["RZ", "RZ"]:
            return [half_words(*i.operands[3:5])]
        return None

    def _word(self, o: Operand) -> tuple[Words, Flags]:
        n = self.result.threads
        if o.kind is Kind.REGISTER:
            return self.values[o.number], self.known[o.number]
        word = o.number if o.kind is Kind.NUMBER else self._constant(o.number)
        return np.full(n, word or 0, np.int64), np.full(n, word is not None)

    def _high(self, o: Operand) -> tuple[Words, Flags]:
        """Return the upper half of a 64-bit operand."""
        n = self.result.threads
        if o.kind is Kind.REGISTER:
            upper = o.number if o.number == ZERO else o.number + 1
            return self.values[upper], self.known[upper]
        if o.kind is Kind.CONSTANT:
            word = self._constant(o.number + 4)
            return np.full(n, word or 0, np.int64), np.full(n, word is not None)
        return np.full(n, MASK if o.number >= 1 << 31 else 0, np.int64), np.ones(n, bool)

    def _constant(self, byte: int) -> int | None:
        return self.launch.constants.get(byte)
