"""The scalar prelude: the helper functions that a kernel's text calls, directly or indirectly."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files

from autosched.codegen.prelude.templates import per_type_functions
from autosched.errors import CompileError

_BEFORE_FUNCTIONS = re.compile(r"^// FUNCTIONS\b.*\n\n", re.MULTILINE)
_DEFINITION = re.compile(r"^AS_FN (?P<result>[a-z ]+?) (?P<name>as_\w+)\((?P<parameters>[^)]*)\) \{$", re.MULTILINE)
ELEMENTARY = re.compile(r"as_(exp|log|sin|cos|tan|tanh|asin|acos|atan|pow|atan2|hypot)_f(32|64)")
RARE_ELEMENTARY = re.compile(r"as_(exp2|expm1|log2|log10|log1p|sinh|cosh|asinh|acosh|atanh|erf|erfc)_f(32|64)")
"""Helper functions with vector variants in `vector_math`; the second ones are declared where they are used."""
_REMAINDER = re.compile(r"as_(mod|floordiv|fmod)_f(32|64)")
"""Helper functions that compute a remainder, with vector variants of our own."""
_CALL = re.compile(r"\b(as_\w+)\(")


def scalar_prelude(used: Collection[str] | None = None) -> str:
    """Return C text that defines scalar helper functions.

    The text compiles as C (gnu11), C++ and CUDA C++ and includes nothing. The functions start with the macro `AS_FN`,
    which the includer may define.

    Args:
        used: Names of the functions; their callees are added. All functions if None.

    Raises:
        CompileError: If a function does not exist.
    """
    head, functions = _sources()
    unknown = sorted(set(used or ()) - functions.keys())
    if unknown:
        raise CompileError(f"internal error: the scalar prelude has no function {', '.join(unknown)}")
    ordered: dict[str, str] = {}
    for name in functions:  # in the order of definition, so that equal kernels have equal texts
        if used is None or name in used:
            _append_after_callees(name, functions, ordered)
    return "\n\n".join([head, *ordered.values()]) + "\n"


def scalar_functions() -> tuple[str, ...]:
    """Return the names of all scalar helper functions, in the order of their definition."""
    return tuple(_sources()[1])


def scalar_signatures() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the C types of the result and of the parameters of each scalar helper function."""
    return {name: _signature(text) for name, text in _sources()[1].items()}


def called_scalar_functions(text: str) -> frozenset[str]:
    """Return the scalar helper functions that a C text calls, for `scalar_prelude`."""
    return frozenset(_CALL.findall(text)) & _sources()[1].keys()


NO_SLP = "AS_NO_SLP"
"""The attribute of kernels that gcc compiles without vectorisation of straight-line code."""
WORKAROUNDS = {
    "CARRIES_DEPENDENCE;": "loop_carried.h",
    "AS_BOOLEAN_INDEX(": "boolean_index.h",
    NO_SLP: "basic_blocks.h",
}
"""Macros of compiler workarounds and the files that define them, for texts that use them."""
FREE_WORKAROUNDS = {"AS_CONVERTED(": "converted_integer.h"}
"""The same for workarounds of one instruction, which give a program no version of its own."""

LOOKUP = "as_lookup_u8"
"""The function that looks up bytes of a table."""
HALF_VECTORS = "HALF_VECTORS"
"""The attribute of kernels with vectors of half the length."""
HELPERS = {HALF_VECTORS: "half_vectors.h", f"{LOOKUP}(": "table_lookup.h"}
"""Attributes and functions of several lanes in C and the files that define them, for texts that use them."""


def helpers(body: str) -> str:
    """Return the attributes and functions of several lanes that a text uses; empty if it uses none.

    Args:
        body: Generated C text.
    """
    names = [name for function, name in HELPERS.items() if function in body]
    return "".join("\n" + files(__package__).joinpath(name).read_text(encoding="utf-8") for name in names)


def vector_math(used: Collection[str]) -> str:
    """Return the declarations of vector variants of elementary functions; empty if none is used.

    Args:
        used: Names of scalar helper functions.
    """
    rare = sorted({m[1] for name in used if (m := RARE_ELEMENTARY.fullmatch(name))})
    has_remainders = any(_REMAINDER.fullmatch(name) for name in used)
    if not rare and not has_remainders and not any(ELEMENTARY.fullmatch(name) for name in used):
        return ""
    text = files(__package__).joinpath("vector_math.h").read_text(encoding="utf-8")
    if rare:
        declarations = "".join(f"AS_OF_ONE({name})\n" for name in rare)
        text += f"#ifdef AS_VECTOR_MATH\n#if __GLIBC_PREREQ(2, 35)\n{declarations}#endif\n#endif\n"
    if has_remainders:
        text += files(__package__).joinpath("vector_remainder.h").read_text(encoding="utf-8")
    return text


def workarounds(body: str) -> str:
    """Return the definitions of the compiler workarounds that a text uses; empty if it uses none.

    Args:
        body: Generated C text.
    """
    names = [name for macro, name in (WORKAROUNDS | FREE_WORKAROUNDS).items() if macro in body]
    return "".join(files(__package__).joinpath(name).read_text(encoding="utf-8") for name in names)


@cache
def _sources() -> tuple[str, dict[str, str]]:
    """Return the macros, and the text of each function by name."""
    text = files(__package__).joinpath("scalar.h").read_text(encoding="utf-8")
    head, body = _BEFORE_FUNCTIONS.split(text)
    functions = {}
    for part in (body, *per_type_functions()):
        for paragraph in part.strip().split("\n\n"):
            definition = _DEFINITION.search(paragraph)
            assert definition is not None, paragraph
            functions[definition["name"]] = paragraph
    return head.strip(), functions


def _signature(text: str) -> tuple[str, tuple[str, ...]]:
    definition = _DEFINITION.search(text)
    assert definition is not None
    parameters = definition["parameters"].split(", ")
    return definition["result"], tuple(parameter.rpartition(" ")[0] for parameter in parameters)


def _append_after_callees(name: str, functions: dict[str, str], ordered: dict[str, str]) -> None:
    if name in ordered:
        return
    for callee in _CALL.findall(functions[name]):
        if callee != name and callee in functions:
            _append_after_callees(callee, functions, ordered)
    ordered[name] = functions[name]
