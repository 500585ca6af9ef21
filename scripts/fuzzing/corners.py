"""Programs at corner cases: far reads of outputs, selects of coordinates, empty domains, widths, NaN."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from fuzzing.expressions import Scope, expression, strong
from fuzzing.stages import input_source, outputs, pointwise, source, stencil
from fuzzing.writer import TYPES, Source, Writer

SELECTS = (
    "au.select(x < y, y, x) // 4", "au.select(x < 5, x, x + y)", "au.select(x % 3 == 0, x, y)", "x % -4", "(x - y) % 5",
    "au.select(y < x, x - y, y - x)", "au.select(x < y, 0, au.select(x > 2 * y, x, y))", "au.min(x, y) + au.max(x, y)",
    "au.select((x + y) % 2 == 0, x // 2, y // 2)", "y % -3 + x", "au.abs(x - 2 * y)", "au.select(x < 5, y, 3) // 8",
    "x + 4 * y", "(x + 4 * y) // 3", "-x", "~x", "au.clamp(x - y, -1, 3)", "au.select(x == y, 0, x)",
)  # fmt: skip
FAR = (
    "x // 4", "2 * x", "0", "3", "x + y", "x - y", "5 - x", "au.select(x < y, y, x) // 4", "x + 9", "7 * x", "y",
    "(x + y) // 2", "au.max(x, y) // 4", "au.select(x < y, x, y) // 3", "(x + 2 * y) // 4",
    "au.select(x < 2 * y, 2 * y, x)",
    "au.abs(x - y) // 2", "au.select(x % 2 == 0, x // 2, y)", "au.min(x, y)", "(x // 4 + y) % 7",
)  # fmt: skip
"""Indices; many cover all values of a range only in combination."""
EXTENTS = ((7, 1), (26, 3), (13, 4), (5, 9), (16, 16), (1, 1), (20, 2))
NAN_VALUES = (
    "au.min({a}, {b})", "au.max({a}, {b})", "0.0 - {a}", "-{a}", "{a} - {a}", "au.clamp({a}, -1.0, 1.0)", "{a} / {b}",
    'au.cast("int32", {a})', 'au.cast("uint8", {b})', "au.abs({a})", "{a} * 0.0", "au.select({a} < {b}, {a}, {b})",
    "au.max({a}, 0.0)", "au.min(-0.0, {b})", "{a} // {b}", "{a} % {b}", "au.sqrt({a})", "{a} != {a}", "-0.0 + {a}",
    '0.0 - au.cast("float32", {b})', '-au.cast("float32", {b})', '-0.0 + au.cast("float32", {b})',
    '0.0 * au.cast("float32", {b})', "0.0 - x", "-0.0 * (x + 1)",
    "au.absd({a}, {b})", "au.round({a})", "{a} + 0.0", "{a} - 0.0", "-(0.0 - {a})", "{a} == {b}", "au.fmod({a}, {b})",
)  # fmt: skip


def far_reads(w: Writer) -> list[Source]:
    """An output that further Funcs read at far, fixed and diagonal points; it often has just the points they read."""
    image = input_source(w, w.pick(("float32", "uint8", "int32", "float64")), (w.pick((8, 5, 16, 1, 20)),))
    y, x = w.variables("y", "x")
    f = w.func()
    w.add(f"{f}[x] = {w.pick((f'{image.name}[x] * 3', f'{image.name}[x - 1] + {image.name}[x + 1]'))}")
    sources = [source(w, f, (x,))]
    largest = 0
    for _ in range(w.pick((1, 1, 1, 2))):
        g, index, (a, b) = w.func(), w.pick(FAR), w.pick(EXTENTS)
        read = w.pick(sources).name if w.chance(30) else f
        w.add(f"{g}[x, y] = {read}[{index}] {w.pick(('+ 1', '+ 1', '- 2', f'+ {read}[0]', f'* {read}[x]'))}")
        w.output(g, ((0, a), (0, b)), (x, y))
        largest = max(largest, largest_index(index, a, b))
        if w.chance(20):
            h = w.func()
            w.add(f"{h}[x] = {f}[{w.pick(('x // 4', '2 * x', '5 - x', 'x'))}] - 2")
            w.output(h, ((0, w.pick((1, 9, 20))),), (x,))
            sources.append(source(w, h, (x,)))
    w.output(f, ((0, largest + 1 if w.chance(60) else w.pick((7, 1, 20, 33))),), (x,))
    return sources


def largest_index(text: str, a: int, b: int) -> int:
    """Return the largest value of an index over a box, at least 0."""
    grid = np.mgrid[:a, :b]
    functions = SimpleNamespace(select=np.where, min=np.minimum, max=np.maximum, abs=np.abs)
    return max(0, int(np.max(eval(text, {"au": functions, "x": grid[0], "y": grid[1]}))))


def far_rows(w: Writer) -> list[Source]:
    """A two-dimensional output that further Funcs read in other rows and columns."""
    input_source(w, "float32", (w.pick((8, 5, 16)), w.pick((8, 16, 20))))
    w.variables("y", "x")
    first = stencil(w)
    chosen = [first]
    indices = ("y // 4", "x // 4", "0", "2 * y", "x", "y", "y + 5", "au.select(y < x, x, y) // 8", "7 - x", "3")
    for _ in range(w.integer(1, 2)):
        f, g = w.pick(chosen), w.func()
        reads = [f"{f.name}[{', '.join(w.pick(indices) for _ in f.dims)}]" for _ in range(w.integer(1, 2))]
        w.add(f"{g}[y, x] = {' + '.join(reads)} + 1")
        chosen.append(source(w, g, ("y", "x")))
    outputs(w, *chosen)
    return chosen


def selected_indices(w: Writer) -> list[Source]:
    """Indices that are selects, moduli and differences of coordinates."""
    image = input_source(w, w.pick(("float32", "uint8")), (w.pick((8, 30, 100)),))
    y, x = w.variables("y", "x")
    f, g = w.func(), w.func()
    w.add(f"{f}[y, x] = {image.name}[{w.pick(SELECTS)}]")
    w.add(f"{g}[y, x] = {w.pick((f'{f}[y, x] + 1', f'{f}[y, {w.pick(SELECTS)}]', f'{f}[{w.pick(SELECTS)}, x]'))}")
    chosen = [source(w, f, (y, x)), source(w, g, (y, x))]
    outputs(w, *(chosen if w.chance(60) else chosen[1:]))
    return chosen


def empty_domains(w: Writer) -> list[Source]:
    """Inputs, outputs and reductions with zero points or one."""
    shape = w.pick(((0,), (0, 3), (3, 0), (1,), (1, 1), (2, 0, 3), ()))
    a = w.input(w.pick(("float32", "int32", "uint8")), shape)
    w.variables(*a.dims)
    f, point = w.func(), ", ".join(a.dims) or "()"
    w.add(f"{f}[{point}] = {a.name}[{point}] + 1")
    w.output(f, tuple(("0", f"{a.name}.shape[{k}]") for k in range(a.ndim)), a.dims)
    chosen = [source(w, f, a.dims)]
    if a.ndim:
        r, s = w.fresh("r"), w.func()
        w.add(f'{r} = RDom("{r}", {", ".join(f"{d}={a.name}.shape[{k}]" for k, d in enumerate(a.dims))})')
        inside = ", ".join(f"{r}.{d}" for d in a.dims)
        kind = w.pick(("au.sum", "au.prod", "au.maximum", "au.minimum"))
        w.add(f"{s}[()] = {kind}({w.pick((a.name, f))}[{inside}], over={r})")
        w.output(s, (), ())
        chosen.append(source(w, s, ()))
    if w.chance(40):
        (x,) = w.variables("x")
        g, r = w.func(), w.fresh("r")
        low = w.integer(0, 3)
        w.add(f'{r} = RDom("{r}", i=({low}, {low}))')
        w.add(f"{g}[x] = 2.5")
        w.add(f"{g}[{r}.i] = {g}[{r}.i - 1] + 1.0")
        w.output(g, ((0, w.pick((1, 4))),), (x,))
        chosen.append(source(w, g, (x,)))
    return chosen


def mixed_widths(w: Writer) -> list[Source]:
    """Operands of every pair of types, mixed with coordinates, shapes and literals."""
    for _ in range(2):
        input_source(w, w.pick(TYPES), (w.pick((5, 8, 16)),))
    if w.chance(50):
        dtype = w.pick(TYPES[:-1])
        w.param(dtype, w.pick((0.5, -3.0)) if dtype.startswith("float") else w.pick((1, 3, 100)))
    (x,) = w.variables("x")
    chosen = []
    for _ in range(w.integer(1, 3)):
        s = Scope(w, (x,), moves=False)
        name = w.func()
        if w.accepts(f"{name}[x] = {expression(s, 2)}"):
            chosen.append(source(w, name, (x,)))
    if not chosen:
        chosen.append(pointwise(w))
    outputs(w, *chosen)
    return chosen


def weak_coordinates(w: Writer) -> list[Source]:
    """Coordinates combined with bytes and wide integers, in indices and in values."""
    image = input_source(w, w.pick(("float32", "int32", "uint8")), (w.pick((40, 300, 17)),))
    small = input_source(w, w.pick(("uint8", "int8", "uint16", "int32", "uint32", "bool", "int64")), (20,))
    a = small.name
    w.variables("y", "x")
    name = w.func()
    forms = (
        f"{image.name}[au.clamp(x - {a}[x], 0, 39)]", f"{a}[x] * x", f"x + {a}[x]", f"{a}[x] - x * 3",
        f"x * 300 + {a}[x]",
        f"{a}[x] + {image.name}[x]", f"x / ({a}[x] + 1)", "(x * x) / 7", f"au.max(x, {a}[x])", f"x // 3 * {a}[x]",
        f"au.select({a}[x] > x, x, {a}[x])", f"{a}[x] * 200", f"{a}[x] + 100", f"x * 2_000_000_000 + {a}[x]",
        f"(x - 5) % 3 + {a}[x]", f"x < {a}[x]", f"{image.name}[x + {a}[x] % 7]", f"{a}.shape[0] * x + {a}[x]",
        "(x * 100_000) / 3.0", "x * x * x + 0.5", f"{a}[x] << x", f"x >> ({a}[x] & 3)", f"-x * {a}[x]",
    )  # fmt: skip
    if ".shape" in (text := w.pick(forms)):
        text = text.replace(f"{a}.shape", f"{w.inputs[-1].name}.shape")
    if not w.accepts(f"{name}[x] = {text}"):
        w.add(f"{name}[x] = x + 1")
    w.output(name, ((0, w.pick((20, 300, 40))),), ("x",))
    chosen = [source(w, name, ("x",))]
    if w.chance(30):
        g = w.func()
        w.add(f'{g}[y, x] = au.cast("float32", {name}[x]) * y')
        w.output(g, ((0, 3), (0, 17)), ("y", "x"))
        chosen.append(source(w, g, ("y", "x")))
    return chosen


def not_a_number(w: Writer) -> list[Source]:
    """NaN, infinities and signed zeros in comparisons, conversions, extrema and argument reductions."""
    dtype = w.pick(("float32", "float32", "float64", "float16", "bfloat16"))
    shape = (w.pick((3, 8)), w.pick((5, 16, 17)))
    a, b = input_source(w, dtype, shape), input_source(w, w.pick((dtype, "uint8")), shape)
    y, x = w.variables("y", "x")
    f = w.func()
    texts = f"{a.name}[y, x]", f"{b.name}[y, x]"
    if texts[1] and b.name and w.chance(30):
        texts = texts[0], f"{a.name}[y, x + 1]"
    text = w.pick(NAN_VALUES).format(a=texts[0], b=texts[1])
    if w.chance(40):
        text = w.pick(NAN_VALUES).format(a=f'au.cast("{dtype}", {text})', b=texts[0])
    if not w.accepts(f"{f}[y, x] = {text}"):
        w.add(f"{f}[y, x] = {texts[0]}")
    chosen = [source(w, f, (y, x))]
    if w.chance(60):
        chosen.append(_extremum(w, w.pick((a, chosen[0]))))
    outputs(w, *chosen)
    return chosen


def _extremum(w: Writer, of: Source) -> Source:
    name, r = w.func(), w.fresh("r")
    kind = w.pick(("au.argmax", "au.argmin", "au.maximum", "au.minimum", "au.sum"))
    w.add(f'{r} = RDom("{r}", i={w.pick((3, 5, 16, 1))})')
    value = f"{of.name}[y, {r}.i]"
    dtype = w.dtype(value)
    if dtype is not None and dtype.kind == "b":
        value = f'au.cast("float32", {value})'
    w.add(f"{name}[y] = {kind}({value}, over={r})")
    return source(w, name, ("y",), 2 if "arg" in kind else 1)


def parameter_indices(w: Writer) -> list[Source]:
    """Parameters in indices, bounds of reductions and values."""
    dtype = w.pick(("int32", "uint8", "int64", "uint32", "int8"))
    p = w.param(dtype, w.pick((1, 0, 3, 7)), index=True)
    w.param(w.pick(("float32", "int32", "uint8")), 2)
    a = input_source(w, None, (w.pick((8, 13)), w.pick((8, 16))))
    w.variables("y", "x")
    f, r = w.func(), w.fresh("r")
    w.add(f'{r} = RDom("{r}", i={w.pick((f"{p} + 1", "3"))})')
    value = f'au.cast("float32", {a.name}[y + {p}, x + {r}.i])'
    w.add(f"{f}[y, x] = au.sum({value}, over={r}) + {strong(Scope(w, ('y', 'x')), 1, 'float32')}")
    chosen = [source(w, f, ("y", "x"))]
    outputs(w, *chosen)
    return chosen


Family = Callable[[Writer], list[Source]]
