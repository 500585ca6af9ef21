"""Parse the declarations and access sites of a kernel's generated text.

A scan for braces and the macros of the generated code contract suffices, and is exact: the printer
writes each macro with literal sizes and site numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from autosched.errors import InputError

C_TYPE_BYTES = {
    "bool": 1,
    "signed char": 1,
    "unsigned char": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "long long": 8,
    "unsigned long long": 8,
    "float": 4,
    "double": 8,
}
"""Size of each element type that generated code uses."""

Space = Literal["global", "shared", "register"]

ATOMICS = tuple(f"ATOMIC_{op}" for op in ("ADD", "MIN", "MAX", "AND", "OR", "XOR"))
"""Macros of atomic operations, which count as stores."""

SHUFFLES = ("SHUFFLE", "SHUFFLE_LANE")
"""Macros at which lanes of a warp wait for one another."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TYPED = r"\(\s*([a-z][a-z ]*?)\s*,\s*(\w+)\s*"
_COUNT = r",\s*(\d+)\s*"
_VECTOR = r"\(\s*(\d+)\s*,\s*[a-z][a-z ]*?\s*,\s*(\d+)\s*,\s*(\w+)\s*,"
_ARGUMENTS = {
    "KERNEL": re.compile(r"\(\s*(\w+)\s*" + _COUNT + r"(?:,\s*\d+\s*)?\)"),
    "GLOBAL_IN": re.compile(_TYPED + _COUNT + r"\)"),
    "GLOBAL_OUT": re.compile(_TYPED + _COUNT + r"\)"),
    "SCALAR": re.compile(_TYPED + r"\)"),
    "SHARED": re.compile(_TYPED + _COUNT + _COUNT + r"\)"),
    "WARP_SHARED": re.compile(_TYPED + 3 * _COUNT + r"\)"),
    "REGISTER": re.compile(_TYPED + _COUNT + r"\)"),
    "LOAD": re.compile(r"\(\s*(\d+)\s*,\s*(\w+)\s*,"),
    "STORE": re.compile(r"\(\s*(\d+)\s*,\s*(\w+)\s*,"),
    "LOAD_VECTOR": re.compile(_VECTOR),
    "STORE_VECTOR": re.compile(_VECTOR),
    "COPY": re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*,\s*[a-z][a-z ]*?\s*,\s*(\d+)\s*,\s*(\w+)\s*,\s*(\w+)\s*,"),
    **dict.fromkeys(ATOMICS, re.compile(r"\(\s*(\d+)\s*,\s*[a-z][a-z ]*?\s*,\s*(\w+)\s*,")),
    "ITER": re.compile(r"\(\s*(\d+)\s*,"),
    "BARRIER": re.compile(r"\(\s*\)"),
    "WARP_BARRIER": re.compile(r"\(\s*0x([0-9a-f]+)u\s*\)"),
    **dict.fromkeys(SHUFFLES, re.compile(r"\(\s*[a-z][a-z ]*?\s*,")),
}
_TOKEN = re.compile(r"[{}]|\b(?:" + "|".join(_ARGUMENTS) + r")\b")
_DECLARES: dict[str, Space] = {
    "GLOBAL_IN": "global",
    "GLOBAL_OUT": "global",
    "SHARED": "shared",
    "WARP_SHARED": "shared",
    "REGISTER": "register",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the kernel: ``macro`` GLOBAL_IN, GLOBAL_OUT or SCALAR, C type, name, element count."""

    macro: str
    c_type: str
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Site:
    """A LOAD or STORE in the text, scalar or vector; a COPY is two sites, a load and a store.

    Attributes:
        store: Whether it is a STORE.
        buffer: Name of the buffer accessed.
        space: Memory of the buffer.
        element_bytes: Size of its elements.
        line: Line of the text, from 1.
        depth: Number of serial loops (marked by ITER) around the site.
        length: Number of elements that a thread accesses at once.
    """

    store: bool
    buffer: str
    space: Space
    element_bytes: int
    line: int
    depth: int
    length: int = 1


@dataclass(slots=True)
class KernelText:
    """Declarations and sites of one kernel."""

    name: str = ""
    max_threads: int = 0
    parameters: list[Parameter] = field(default_factory=list)
    sites: dict[int, Site] = field(default_factory=dict)
    shared_element_bytes: set[int] = field(default_factory=set)
    register_bytes: int = 0
    has_barrier: bool = False
    has_shuffle: bool = False
    max_depth: int = 0


@dataclass(slots=True)
class _Scope:
    """A pair of braces: the buffers declared in it and the serial loops around it."""

    buffers: dict[str, tuple[Space, int]]
    depth: int


def read_kernel_text(text: str) -> KernelText:
    """Return the declarations and sites of the one kernel in ``text``.

    Raises:
        InputError: If the text does not follow the generated code contract; names the line.
    """
    text = _COMMENT.sub(lambda match: " " + "\n" * match.group().count("\n"), text)
    result = KernelText()
    scopes = [_Scope({}, 0)]
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word == "{":
            scopes.append(_Scope(dict(scopes[-1].buffers), scopes[-1].depth))
        elif word == "}":
            scopes.pop()
            if not scopes:
                raise InputError(f"line {_line(text, token.start())}: unbalanced braces in generated code")
        else:
            arguments = _ARGUMENTS[word].match(text, token.end())
            line = _line(text, token.start())
            if arguments is None:
                raise InputError(f"line {line}: {word} does not follow the generated code contract")
            _add(result, scopes[-1], word, arguments.groups(), line)
    if not result.name:
        raise InputError("the generated code has no KERNEL")
    return result


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _add(result: KernelText, scope: _Scope, word: str, arguments: tuple[str, ...], line: int) -> None:
    if word == "KERNEL":
        if result.name:
            raise InputError(f"line {line}: a second KERNEL in one text; compile each on its own")
        result.name, result.max_threads = arguments[0], int(arguments[1])
    elif word in ("BARRIER", "WARP_BARRIER"):
        result.has_barrier = True
    elif word in SHUFFLES:
        result.has_shuffle = True
    elif word == "ITER":
        scope.depth = int(arguments[0]) + 1
        result.max_depth = max(result.max_depth, scope.depth)
    elif word == "COPY":
        *numbers, target, source = arguments
        loaded, stored, count = map(int, numbers)
        _add_site(result, scope, word, loaded, source, count, line, store=False)
        _add_site(result, scope, word, stored, target, count, line, store=True)
    elif word in ("LOAD", "STORE", "LOAD_VECTOR", "STORE_VECTOR", *ATOMICS):
        length = int(arguments[1]) if len(arguments) > 2 else 1
        store = not word.startswith("LOAD")
        _add_site(result, scope, word, int(arguments[0]), arguments[-1], length, line, store=store)
    else:
        _declare(result, scope, word, arguments, line)


def _add_site(
    result: KernelText, scope: _Scope, word: str, number: int, buffer: str, length: int, line: int, *, store: bool
) -> None:  # fmt: skip
    if number in result.sites:
        raise InputError(f"line {line}: site {number} is used twice")
    if buffer not in scope.buffers:
        raise InputError(f"line {line}: {word} of {buffer}, which no macro declares")
    space, element_bytes = scope.buffers[buffer]
    result.sites[number] = Site(store, buffer, space, element_bytes, line, scope.depth, length)


def _declare(result: KernelText, scope: _Scope, word: str, arguments: tuple[str, ...], line: int) -> None:
    c_type, name = " ".join(arguments[0].split()), arguments[1]
    if c_type not in C_TYPE_BYTES:
        raise InputError(f"line {line}: {c_type} is not an element type of generated code")
    element_bytes, count = C_TYPE_BYTES[c_type], int(arguments[2]) if len(arguments) > 2 else 1
    if word in ("GLOBAL_IN", "GLOBAL_OUT", "SCALAR"):
        result.parameters.append(Parameter(word, c_type, name, count))
    elif word in ("SHARED", "WARP_SHARED"):
        result.shared_element_bytes.add(element_bytes)
    elif word == "REGISTER":
        result.register_bytes += count * element_bytes
    if word in _DECLARES:
        scope.buffers[name] = (_DECLARES[word], element_bytes)
