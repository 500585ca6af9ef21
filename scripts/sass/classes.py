"""Classes of instructions: data or index arithmetic, clamps, predicates, moves, memory, control."""

from __future__ import annotations

from collections import Counter

from sass.instructions import Code, Instruction, Kind
from sass.machine import Execution

CLASSES = (
    "data", "pack", "move", "load global", "load shared", "store global", "store shared", "spill",
    "index", "wide address", "clamp", "predicate", "setup", "barrier", "control",
)  # fmt: skip
"""``data`` is arithmetic on values, ``pack`` the packing and unpacking of their bytes; ``index`` is 32-bit integer
arithmetic that is independent of data, ``wide address`` its 64-bit part, ``clamp`` its minima, maxima and selects;
``setup`` fetches parameters and thread indices."""

_MEMORY = {
    "LDG": "load global", "LD": "load global", "LDS": "load shared", "STG": "store global", "ST": "store global",
    "RED": "store global", "ATOMG": "store global", "STS": "store shared", "ATOMS": "store shared",
    "LDL": "spill", "STL": "spill",
}  # fmt: skip
_CONTROL = frozenset({"BRA", "EXIT", "BSSY", "BSYNC", "CALL", "RET", "NOP", "WARPSYNC", "JMP", "YIELD", "BREAK"})
_SETUP = frozenset({"S2R", "S2UR", "LDC", "ULDC", "CS2R"})
_CLAMPS = frozenset({"VIMNMX", "VIMNMX3", "VIADDMNMX", "IMNMX", "UIMNMX", "SEL", "USEL"})
_PREDICATES = frozenset({"ISETP", "UISETP", "PLOP3", "UPLOP3", "P2R", "R2P"})
_WIDE = frozenset({"WIDE", "X", "HI"})


def class_of(i: Instruction, *, indexing: bool) -> str:
    """Return the class of an instruction; ``indexing`` is set if its result is independent of data."""
    if i.opcode in _MEMORY:
        return _MEMORY[i.opcode]
    if i.opcode == "BAR":
        return "barrier"
    if i.opcode in _CONTROL:
        return "control"
    if i.opcode in _SETUP:
        return "setup"
    if not indexing:
        return _data_class(i)
    if i.opcode in _CLAMPS:
        return "clamp"
    if i.opcode in _PREDICATES:
        return "predicate"
    carries = i.opcode in ("IADD3", "LEA") and any(o.kind is Kind.PREDICATE for o in i.operands)
    return "wide address" if carries or not _WIDE.isdisjoint(i.modifiers) else "index"


def _data_class(i: Instruction) -> str:
    if i.opcode in ("MOV", "UMOV", "R2UR") or (i.opcode == "IMAD" and i.has("MOV")):
        return "move"
    masks = i.opcode == "LOP3" and any(o.text in ("0xff", "0xffff") for o in i.operands)
    return "pack" if masks or i.opcode in ("PRMT", "SGXT", "BMSK") else "data"


def classes_of(code: Code, execution: Execution) -> Counter[str]:
    """Return the instructions of a block by class."""
    counts: Counter[str] = Counter()
    for i, issued, indexing in zip(code.instructions, execution.issued, execution.indexing, strict=True):
        if indexing:
            counts[class_of(i, indexing=True)] += int(indexing)
        if issued > indexing:
            counts[class_of(i, indexing=False)] += int(issued - indexing)
    return counts
