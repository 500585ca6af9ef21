"""Identifiers of generated code: close to the user's names, never a word or macro of C, CUDA or the prelude."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from autosched.analysis.macro_names import is_macro

_WORDS = """
auto bool break case catch char class const constexpr continue default delete do double else enum explicit export extern
false float for friend goto if inline int long mutable namespace new operator private protected public register restrict
return short signed sizeof static struct switch template this throw true try typedef typename typeid typeof union
unsigned using virtual void volatile wchar_t while alignas alignof char16_t char32_t const_cast decltype dynamic_cast
noexcept nullptr reinterpret_cast static_assert static_cast thread_local typeof
asm and or not xor bitand bitor compl and_eq or_eq xor_eq not_eq
main min max abs exp log sin cos tan pow sqrt floor ceil round trunc fmod linux unix
threadIdx blockIdx blockDim gridDim warpSize block
KERNEL GLOBAL_IN GLOBAL_OUT SCALAR SHARED REGISTER LOAD STORE LOAD_VECTOR STORE_VECTOR COPY WAIT_FOR_COPIES BARRIER
WARP_BARRIER WARP_SHARED
ATOMIC_ADD ATOMIC_MIN ATOMIC_MAX ATOMIC_AND ATOMIC_OR ATOMIC_XOR SHUFFLE LANES SHUFFLE_LANE GIVEN
ITER UNROLL ROLLED ONE_BY_ONE CARRIES_DEPENDENCE
"""
RESERVED = frozenset(_WORDS.split())
"""Names that generated code cannot give to the user's arrays and variables; so is every name with prefix ``as_``."""

_PLAIN = re.compile(r"[A-Za-z0-9_]*")


class Namer:
    """Source of C identifiers that are unique within a kernel."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}

    def __call__(self, base: str, suffix: str = "", *, components: int = 1) -> str:
        """Return ``base_suffix``, with a number if it or the label of a component is taken."""
        clean = base.replace(".", "_")
        if not _PLAIN.fullmatch(clean):
            clean = "".join(c if _PLAIN.fullmatch(c) else f"u{ord(c):x}" for c in clean)
        stem = f"{clean}_{suffix}" if suffix else clean
        if is_macro(stem):
            stem = f"u{stem}"
        name, k = stem, self._last.get(stem, 0)
        while not self._taken.isdisjoint(labels := _labels(name, components)):
            k += 1
            name = f"{stem}{k}" if stem[-1:].isalpha() else f"{stem}_{k}"
        self._last[stem] = k
        self._taken.update(labels)
        return name


def _labels(name: str, components: int) -> list[str]:
    return [name, *(f"{name}_{k}" for k in range(components) if components > 1)]


def identifiers(arguments: Iterable[str], components: Mapping[str, int]) -> dict[str, str]:
    """Return a C identifier for everything that a program accesses, close to the user's name.

    Args:
        arguments: Names of inputs and scalar parameters.
        components: Number of tuple components of each Func.
    """
    namer = Namer(RESERVED)
    result = {name: namer(avoid_reserved(name)) for name in arguments}
    for name in sorted(components, key=lambda n: "." in n):  # cache reads last, so that they rename no other Func
        result[name] = namer(avoid_reserved(name), components=components[name])
    return result


def component_label(names: Mapping[str, str], func: str, components: int, k: int) -> str:
    """Return the identifier of component ``k`` of a Func with the given number of components."""
    return _labels(names[func], components)[0 if components == 1 else k + 1]


def avoid_reserved(name: str) -> str:
    """Return a name without a prefix of the prelude's names."""
    return f"u{name}" if name.lower().startswith(("as_", "_")) else name


def reserved_names(names: Mapping[str, str], components: Mapping[str, int]) -> frozenset[str]:
    """Return all names that a kernel cannot give to its own variables.

    Args:
        names: Identifiers of inputs, parameters and Funcs, as `identifiers` returns them.
        components: Number of tuple components of each Func.
    """
    labels = {*RESERVED, *names.values()}
    for name, count in components.items():
        labels.update(_labels(names[name], count))
    return frozenset(labels)
