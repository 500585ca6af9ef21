"""Parser of nvdisasm's output into instructions with decoded operands.

Registers share one numbering: R0 to R254, then RZ and URZ (`ZERO`, which reads as 0), then UR0 and up. Likewise
predicates: P0 to P6, PT and UPT (`TRUE`), UP0 and up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

ZERO = 255
UNIFORM = 256
REGISTERS = UNIFORM + 64
TRUE = 7
UNIFORM_PREDICATE = 8
PREDICATES = UNIFORM_PREDICATE + 8
BYTES = 16
"""Size of an instruction."""

_FUNCTION = re.compile(r"^\.text\.(\S+):$")
_LABEL = re.compile(r"^(\.L_\w+|\$\S+):$")
_LINE = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?)(U?P\w)\s+)?([A-Z0-9_]+(?:\.\w+)*)\s*(.*?)\s*;")
_REGISTER = re.compile(r"([-~]?)(\|?)(U?R)(Z|\d+)((?:\.\w+)*)\|?")
_PREDICATE = re.compile(r"(!?)(U?P)(T|\d)")
_NUMBER = re.compile(r"-?0x[0-9a-f]+")
_CONSTANT = re.compile(r"([-~]?)\|?c\[0x([0-9a-f]+)\]\[0x([0-9a-f]+)\]\|?")


class Kind(Enum):
    """Kind of an operand."""

    REGISTER = "register"
    PREDICATE = "predicate"
    NUMBER = "number"
    CONSTANT = "constant"
    ADDRESS = "address"
    LABEL = "label"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand.

    Attributes:
        kind: Its kind.
        text: Its text in nvdisasm's output.
        number: Register or predicate, value modulo 2^32, or byte in constant bank 0 (-1 for another bank).
        negated: Whether it is negated; for a predicate, complemented.
        inverted: Whether its bits are complemented.
    """

    kind: Kind
    text: str
    number: int = 0
    negated: bool = False
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a kernel.

    Attributes:
        opcode: Its name, without modifiers.
        modifiers: Dot-separated suffixes of the name.
        operands: Destinations first.
        guard: Its guard predicate, or None.
        line: Line of the source, 0 if not recorded.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None = None
    line: int = 0

    def has(self, modifier: str) -> bool:
        """Whether it has a modifier."""
        return modifier in self.modifiers

    @property
    def address(self) -> Operand | None:
        """The memory address it uses, or None."""
        return next((o for o in self.operands if o.kind is Kind.ADDRESS), None)

    def __str__(self) -> str:
        guard = f"@{'!' * self.guard.negated}{self.guard.text} " if self.guard else ""
        return f"{guard}{'.'.join((self.opcode, *self.modifiers))} {', '.join(o.text for o in self.operands)}"


@dataclass(frozen=True, slots=True)
class Code:
    """The instructions of one kernel, and the positions of its labels."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


def parse_sass(text: str) -> dict[str, Code]:
    """Return the kernels in nvdisasm's output by name, without the NOPs that pad the end."""
    kernels: dict[str, Code] = {}
    name, line = "", 0
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}

    def finish() -> None:
        if name and instructions:
            kernels[name] = Code(name, _without_padding(instructions), labels)

    for row in text.splitlines():
        if match := _FUNCTION.match(row):
            finish()
            name, line, instructions, labels = match[1], 0, [], {}
        elif match := _LABEL.match(row):
            labels[match[1]] = len(instructions)
        elif match := _LINE.match(row):
            line = int(match[1])
        elif (match := _INSTRUCTION.match(row)) and name:
            if int(match[1], 16) != BYTES * len(instructions):
                raise ValueError(f"{name}: an instruction is missing before {row.strip()!r}")
            instructions.append(_instruction(match, line))
    finish()
    return kernels


def _instruction(match: re.Match[str], line: int) -> Instruction:
    guard = parse_operand(match[2] + match[3]) if match[3] else None
    opcode, *modifiers = match[4].split(".")
    operands = tuple(parse_operand(o) for o in _split(match[5]))
    return Instruction(opcode, tuple(modifiers), operands, guard, line)


def _without_padding(instructions: list[Instruction]) -> tuple[Instruction, ...]:
    end = len(instructions)
    while end and instructions[end - 1].opcode == "NOP":
        end -= 1
    endless = "BRA"  # a branch to itself precedes the padding
    if end and instructions[end - 1].opcode == endless and instructions[end - 1].guard is None:
        end -= 1
    return tuple(instructions[:end])


def _split(text: str) -> list[str]:
    """Return the operands of an instruction; commas within parentheses and brackets do not count."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip().replace(".reuse", "") for p in parts if p.strip()]


def parse_operand(text: str) -> Operand:
    """Return a decoded operand."""
    if match := _REGISTER.fullmatch(text):
        sign, magnitude, kind, number, suffix = match.groups()
        if magnitude or suffix:  # of floating-point and half-word operands, which are not evaluated
            return Operand(Kind.OTHER, text, register_number(kind, number))
        return Operand(Kind.REGISTER, text, register_number(kind, number), sign == "-", sign == "~")
    if match := _PREDICATE.fullmatch(text):
        uniform = UNIFORM_PREDICATE if match[2] == "UP" else 0
        return Operand(Kind.PREDICATE, text, TRUE if match[3] == "T" else uniform + int(match[3]), match[1] == "!")
    if _NUMBER.fullmatch(text):
        return Operand(Kind.NUMBER, text, int(text, 16) & 0xFFFFFFFF)
    if match := _CONSTANT.fullmatch(text):
        byte = int(match[3], 16) if int(match[2], 16) == 0 else -1
        return Operand(Kind.CONSTANT, text, byte, match[1] == "-", match[1] == "~")
    if "`(" in text:
        return Operand(Kind.LABEL, text[text.index("`(") + 2 : text.rindex(")")])
    return Operand(Kind.ADDRESS if "[" in text and not text.startswith("c[") else Kind.OTHER, text)


def register_number(kind: str, number: str) -> int:
    """Return the number of a register from ``R`` or ``UR`` and the rest of its name."""
    return ZERO if number == "Z" else int(number) + UNIFORM * (kind == "UR")
