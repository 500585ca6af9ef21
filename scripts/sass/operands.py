"""Written and read operands of instructions."""

from __future__ import annotations

import numpy as np

from sass.instructions import ZERO, Instruction, Kind, Operand
from sass.memory import access_bytes

COMPARISONS = frozenset({"ISETP", "UISETP", "PLOP3", "UPLOP3", "FSETP", "DSETP", "HSETP2", "VOTE", "VOTEU"})
"""Instructions that write two predicates and no register."""


def split_operands(i: Instruction) -> tuple[list[int], list[int], list[Operand], list[Operand]]:
    """Return an instruction's written registers and predicates, and its read words and predicates."""
    rest = list(i.operands)
    predicates: list[int] = []
    registers: list[int] = []
    while rest and rest[0].kind is Kind.PREDICATE:
        if i.opcode in COMPARISONS and len(predicates) == 2:
            break
        predicates.append(rest.pop(0).number)
    if i.opcode not in COMPARISONS and rest and rest[0].kind is Kind.REGISTER:
        first = rest.pop(0).number
        registers = [first + k if first != ZERO else ZERO for k in range(result_words(i))]
        words = [k for k, o in enumerate(rest) if o.kind is not Kind.PREDICATE]
        written = words[0] if words else 0  # predicates before a source word
        predicates += [o.number for o in rest[:written]]
        del rest[:written]
    flags = [o for o in rest if o.kind is Kind.PREDICATE]
    return registers, predicates, [o for o in rest if o.kind is not Kind.PREDICATE], flags


def result_words(i: Instruction) -> int:
    """Return the number of registers that an instruction writes."""
    if i.opcode in ("LDG", "LDS", "LDL", "LD", "LDC", "ULDC"):
        return max(access_bytes(i) // 4, 1)
    if i.opcode == "CS2R":
        return 1 if i.has("32") else 2
    wide = i.has("WIDE") or i.opcode in ("DADD", "DMUL", "DFMA", "DMNMX") or i.modifiers[:1] == ("F64",)
    if i.opcode in ("HMMA", "IMMA", "LDSM"):
        return 4
    return 2 if wide else 1


def half_words(high: Operand, low: Operand) -> int:
    """Return the word with two float16 literals as halves, a form of constants in moves."""
    bits = np.array([float(low.text), float(high.text)], np.float16).view(np.uint16)
    return int(bits[0]) | int(bits[1]) << 16
