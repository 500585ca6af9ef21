"""Programs with carried dependences: diagonal scans, programs over rows, permutations that fill a Func."""

from __future__ import annotations

from fuzzing.expressions import Scope, leaf, strong
from fuzzing.stages import input_source, source
from fuzzing.writer import Source, Writer, at

COMBINATIONS = ("{p} + {v}", "au.max({p}, {v})", "au.min({p}, {v})", "{p} - {v}", "{v} - {p}", "{v}", "{p} * {v}")
OFFSETS = ((1, 1), (1, 2), (2, 1), (1, 0), (0, 1), (1, -1), (2, -1), (0, 2), (1, -2), (2, 0), (3, 1), (0, 3))
WIDTHS = (12, 16, 8, 17, 20, 5, 15, 1, 2, 24, 33)
TYPES = ("float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16", "int16", "bool")


def diagonal_scan(w: Writer) -> list[Source]:
    """``f[y, x]`` from ``f[y - dy, x - dx]``, in either direction, with one or two such reads."""
    h, width = w.pick((8, 5, 3, 16, 12, 2, 1)), w.pick(WIDTHS)
    image = input_source(w, w.pick(("float32", "int32", "uint8")), (h, width))
    y, x = w.variables("y", "x")
    name, dtype = w.func(), w.pick(TYPES)
    w.add(f'{name}[y, x] = au.cast("{dtype}", {image.name}[y, x])')
    for _ in range(w.pick((1, 1, 2))):
        _scan_update(w, name, dtype, image, h, width)
    w.output(name, ((0, h), (0, width)), (y, x))
    sources = [source(w, name, (y, x))]
    return sources if w.chance(60) else [*sources, _reader(w, name, h, width)]


def _scan_update(w: Writer, name: str, dtype: str, image: Source, h: int, width: int) -> None:
    (dy, dx), (ey, ex) = w.pick(OFFSETS), w.pick(OFFSETS)
    r = w.fresh("r")
    low_y, low_x, end_x = max(dy, ey), max(dx, ex, 0), min(0, dx, ex)
    w.add(f'{r} = RDom("{r}", y=({low_y}, {max(h, low_y)}), x=({low_x}, {max(width + end_x, low_x)}))')
    ry, rx = f"{r}.y", f"{r}.x"
    if w.chance(25):
        ry, rx, dy, dx, ey, ex = f"{h - 1} - {ry}", f"{width - 1} - {rx}", -dy, -dx, -ey, -ex
    before = f"{name}[{ry} - {dy}, {rx} - {dx}]"
    again = f"{name}[{ry} - {ey}, {rx} - {ex}]" if w.chance(40) else f'au.cast("{dtype}", {image.name}[{ry}, {rx}])'
    form = w.pick(COMBINATIONS) if dtype != "bool" else w.pick(("{p} ^ {v}", "{p} | {v}", "{v} & ~{p}"))
    w.add(f"{name}[{ry}, {rx}] = {form.format(p=before, v=again)}")


def _reader(w: Writer, name: str, h: int, width: int) -> Source:
    reader = w.func()
    w.add(f"{reader}[y, x] = {w.pick((f'{name}[y, x]', f'{name}[y // 2, x // 2]', f'{name}[y, 0]', f'{name}[y, y]'))}")
    w.output(reader, ((0, h), (0, width)), ("y", "x"))
    return source(w, reader, ("y", "x"))


def long_scan(w: Writer) -> list[Source]:
    """A recurrence along one dimension of several, of the first to third order."""
    h, width = w.pick((1, 3, 8, 16)), w.pick(WIDTHS)
    image = input_source(w, w.pick(("float32", "int32", "float64", "int8")), (h, width))
    w.variables("y", "x")
    name, dtype, r = w.func(), w.pick(TYPES[:7]), w.fresh("r")
    step, axis = w.integer(1, 3), w.integer(0, 1)
    extent = (h, width)[axis]
    first = min(step, extent)
    w.add(f'{name}[y, x] = au.cast("{dtype}", {image.name}[y, x])')
    w.add(f'{r} = RDom("{r}", d=({first}, {extent}))')
    d = f"{r}.d" if w.chance(70) else f"{extent - 1} - {r}.d"
    back = f"{d} - {step}" if d.startswith(r) else f"{d} + {step}"
    here, before = (f"{d}, x", f"{back}, x") if axis == 0 else (f"y, {d}", f"y, {back}")
    value = f'au.cast("{dtype}", {image.name}[{here}])'
    w.add(f"{name}[{here}] = {w.pick(COMBINATIONS).format(p=f'{name}[{before}]', v=value)}")
    w.output(name, ((0, h), (0, width)), ("y", "x"))
    return [source(w, name, ("y", "x"))]


def row_program(w: Writer) -> list[Source]:
    """A scan over rows that is pure in columns and reads shifted columns of the previous row."""
    h, width = w.pick((2, 4, 9, 1)), w.pick((5, 13, 16, 1, 3))
    image = input_source(w, w.pick(("float32", "int32", "float64")), (h, width))
    w.variables("y", "x")
    name, r = w.func(), w.fresh("r")
    w.add(f'{r} = RDom("{r}", y=(1, {h}))')
    w.add(f"{name}[y, x] = {image.name}[y, x]")
    reads = [f"{name}[{r}.y - 1, au.clamp(x + {d}, 0, {width - 1})]" for d in w.pick(((-1, 0, 1), (1,), (-2, 2)))]
    if w.chance(25):
        reads.append(f"{name}[{r}.y - 1, {width - 1} - au.clamp(x, 0, {width - 1})]")
    form, text = w.pick(("au.min({}, {})", "au.max({}, {})", "{} + {}")), reads[0]
    for value in reads[1:]:
        text = form.format(text, value)
    w.add(f"{name}[{r}.y, x] {w.pick(('+=', '='))} {text}")
    w.output(name, ((0, h), (0, width)), ("y", "x"))
    return [source(w, name, ("y", "x"))]


def filled_undef(w: Writer) -> list[Source]:
    """An undefined Func whose points are all written by a permutation of loops, and a reader."""
    rows, columns = w.integer(1, 5), w.integer(1, 6)
    n = rows * columns
    image = input_source(w, w.pick(("float32", "uint8", "int64")), (n,))
    (k,) = w.variables("k")
    name, r = w.func(), w.fresh("r")
    w.add(f'{r} = RDom("{r}", y={rows}, x={columns})')
    w.add(f'{name}[{k}] = au.undef("{w.pick(("float32", "int32"))}")')
    point = w.pick((f"{r}.x + {columns} * {r}.y", f"{r}.y + {rows} * {r}.x", f"{n - 1} - ({r}.x + {columns} * {r}.y)"))
    w.add(f"{name}[{point}] = {image.name}[{w.pick((f'{r}.y + {rows} * {r}.x', f'{r}.x', '0'))}] + 1")
    w.output(name, ((0, n),), (k,))
    return [source(w, name, (k,))]


def data_scan(w: Writer) -> list[Source]:
    """A scan whose value is a random expression of earlier values."""
    h, width = w.pick((3, 6)), w.pick((5, 12, 16))
    input_source(w, None, (h, width))
    w.variables("y", "x")
    name, r, dtype = w.func(), w.fresh("r"), w.pick(TYPES[:7])
    w.add(f"{name}[y, x] = {strong(Scope(w, ('y', 'x')), 0, dtype)}")
    w.add(f'{r} = RDom("{r}", y=(1, {h}), x=(1, {width}))')
    point = (f"{r}.y", f"{r}.x")
    before = at(name, (f"{r}.y - 1", f"{r}.x - 1"))
    s = Scope(w, point, values=(before, before, at(name, (f"{r}.y", f"{r}.x - 1"))))
    w.add(f"{at(name, point)} = {strong(s, 2, dtype)}")
    w.add(f'{at(name, point)} += au.cast("{dtype}", {leaf(Scope(w, point))})')
    w.output(name, ((0, h), (0, width)), ("y", "x"))
    return [source(w, name, ("y", "x"))]
