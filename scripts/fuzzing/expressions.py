"""Random expressions as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autosched.errors import AutoschedError
from fuzzing.indices import indices_for
from fuzzing.writer import TYPES, Source, Writer, at

LITERALS = ("1", "0", "2", "-1", "3", "7", "-3", "200", "255", "128", "-128", "40000", "2_000_000_000", "-5")
FLOATS = ("0.5", "1.0", "-2.0", "0.1", "0.0", "-0.0", "1e-3", "3.0", "65504.0", "1e30")
SHORT = ("1", "2", "-1", "3", "7", "0", "5")

BINARY = ("{} + {}", "{} - {}", "{} * {}", "au.min({}, {})", "au.max({}, {})", "{} // {}", "{} % {}", "{} / {}")
BITWISE = ("{} & {}", "{} | {}", "{} ^ {}", "{} << {}", "{} >> {}")
UNARY = ("-{}", "au.abs({})", "au.sqrt({})", "{} / 3", "{} // 4", "{} * {}", "au.absd({}, 3)", "2 * {} - 1", "0 - {}")
INTEGER_UNARY = ("~{}", "{} >> 1", "{} & 15", "{} << 2", "{} % 7", "au.hash_u32({})", "{} // -3", "{} % -5")
FLOAT_UNARY = (
    "au.floor({})", "au.ceil({})", "au.trunc({})", "au.round({})", "0.0 - {}", "{} * 0.5", "-0.0 + {}", "1.0 / {}",
    "au.fmod({}, 3.0)", "au.lerp({}, 2.0, 0.25)", "au.max({}, 0.0)", "au.min({}, -0.0)",
)  # fmt: skip
COMPARISONS = ("{} < {}", "{} <= {}", "{} > {}", "{} >= {}", "{} == {}", "{} != {}")
LOGICAL = ("{} & {}", "{} | {}", "{} ^ {}")


@dataclass(frozen=True)
class Scope:
    """Scope of an expression.

    Attributes:
        writer: Random decisions and the program so far.
        coords: Text of the expression's point.
        sources: Readable Funcs and Inputs; those of the writer if None.
        values: Texts of additional values.
        moves: Whether reads may be shifted, resampled or data-dependent.
    """

    writer: Writer
    coords: tuple[str, ...]
    sources: Sequence[Source] | None = None
    values: tuple[str, ...] = field(default=())
    moves: bool = True

    def also(self, *values: str) -> Scope:
        """Return a scope with additional values."""
        return replace(self, values=(*self.values, *values))


def read(s: Scope, source: Source) -> str:
    """Return a value of a source near the point."""
    text = at(source.name, indices_for(s, source))
    return f"{text}[{s.writer.integer(0, source.components - 1)}]" if source.components > 1 else text


def leaf(s: Scope) -> str:
    """Return a value without operands."""
    w = s.writer
    if s.values and w.chance(45):
        return w.pick(s.values)
    sources = w.sources if s.sources is None else s.sources
    kind = w.integer(0, 19)
    if kind < 11 and sources:
        return read(s, sources[-1] if w.chance(50) else w.pick(sources))
    if kind < 14 and s.coords:
        return w.pick(s.coords)
    if kind == 14 and w.params:
        return w.pick(w.params)
    if kind == 15 and (shaped := [i for i in w.inputs if i.ndim]):
        i = w.pick(shaped)
        return f"{i.name}.shape[{w.integer(0, i.ndim - 1)}]"
    if kind == 16:
        dtype = w.pick(TYPES)
        return f'au.cast("{dtype}", {w.pick(FLOATS if dtype.startswith("float") else LITERALS)})'
    return w.pick((*LITERALS, *FLOATS))


def expression(s: Scope, depth: int) -> str:
    """Return a random expression of any type, with operands of every pair of types."""
    w = s.writer
    if depth == 0 or w.chance(12):
        return leaf(s)
    kind = w.integer(0, 9)
    if kind == 0:
        return f'au.cast("{w.pick(TYPES)}", {expression(s, depth - 1)})'
    if kind == 1:
        arms = expression(s, depth - 1), expression(s, depth - 1)
        return _first_accepted(s, [f"au.select({condition(s, depth - 1)}, {arms[0]}, {arms[1]})", arms[0]])
    if kind in (2, 3):
        return _unary(s, expression(s, depth - 1))
    x, y = expression(s, depth - 1), expression(s, depth - 1) if w.chance(75) else w.pick(SHORT)
    if w.dtype(x) is None and w.dtype(y) is None:  # Python arithmetic, evaluated before the language
        return x
    form = w.pick(BITWISE) if kind == 4 else w.pick(BINARY)
    tries = [form.format(_part(x), _part(y))]
    dtype = w.pick(("int32", "float32", "uint8", "int64"))
    tries.append(w.pick(BINARY).format(f'au.cast("{dtype}", {x})', f'au.cast("{dtype}", {y})'))
    return _first_accepted(s, tries)


def condition(s: Scope, depth: int) -> str:
    """Return a random bool."""
    w = s.writer
    if s.coords and w.chance(40):
        return w.pick(COMPARISONS).format(w.pick(s.coords), w.pick((*s.coords, *SHORT)))
    if depth > 0 and w.chance(25):
        return w.pick(LOGICAL).format(f"({condition(s, depth - 1)})", f"({condition(s, depth - 1)})")
    x, y = expression(s, max(depth - 1, 0)), w.pick(SHORT) if w.chance(50) else leaf(s)
    fallback = f'au.cast("float32", {x}) < 1.0'
    comparison = _first_accepted(s, [w.pick(COMPARISONS).format(_part(x), _part(y)), fallback])
    return comparison if w.dtype(comparison) is not None else fallback


def strong(s: Scope, depth: int, dtype: str | None = None) -> str:
    """Return an expression of a given or random type."""
    return f'au.cast("{dtype or s.writer.pick(TYPES)}", {expression(s, depth)})'


def _unary(s: Scope, x: str) -> str:
    w = s.writer
    dtype = w.dtype(x)
    if dtype is None:
        return x
    special = FLOAT_UNARY if dtype.is_float else INTEGER_UNARY
    form = w.pick((*UNARY, *special, *special))
    return _first_accepted(s, [form.format(*[_part(x)] * form.count("{}")), x])


def _first_accepted(s: Scope, texts: Sequence[str]) -> str:
    """Return the first of the texts that the language accepts; the last one is not checked."""
    for text in texts[:-1]:
        try:
            s.writer.value(text)
        except AutoschedError:
            s.writer.refused["in an expression"] += 1
            continue
        return text
    return texts[-1]


def _part(text: str) -> str:
    simple = text.replace("_", "").replace(".", "").isalnum() or (text.endswith((")", "]")) and _closed(text))
    return text if simple else f"({text})"


def _closed(text: str) -> bool:
    """Whether a text that ends with a bracket is a single call or read."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and c in " " and k:
            return False
    return not text.startswith(("-", "~"))
