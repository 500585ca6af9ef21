"""Random Funcs whose accesses depend on data and are in range by comparisons, stored ranges and predicates."""

from __future__ import annotations

from fuzzing.expressions import Scope, leaf, read, strong
from fuzzing.stages import ACCUMULATIONS, REDUCTIONS, dims_of, reduction_domain, source
from fuzzing.writer import SIZES, Source, Writer, at

WHOLE = (
    'au.cast("int32", {d})', 'au.cast("int64", {d})', 'au.cast("uint32", {d})', 'au.cast("int16", {d})',
    'au.cast("int32", {d}) + 2', '{v} - au.cast("int32", {d})', '{v} + au.cast("uint8", {d})', "{v} - 1", "{v}",
    '3 - au.cast("int32", {d})', 'au.cast("uint8", {d})',
)  # fmt: skip
"""Integers of any value."""
INSIDE = (
    "({i} >= 0) & ({i} < {n})", "({n} > {i}) & (0 <= {i})", "~(({i} < 0) | ({i} >= {n}))",
    "({i} >= 0) & ({i} <= {n} - 1)", "({i} >= 0) & (({i} < {n}) & {c})", "{c} & ({i} < {n}) & ({i} >= 0)",
)  # fmt: skip
TABLES = ("float32", "uint8", "int32", "float64", "int16")


def _condition(s: Scope) -> str:
    return f'(au.cast("float32", {leaf(s)}) < {s.writer.pick(("0.5", "3.0", "-1.0"))})'


def _read(w: Writer, s: Scope) -> str:
    return read(s, w.pick([i for i in w.sources if i.components == 1]))


def _number(w: Writer, s: Scope) -> str:
    v = w.pick(s.coords) if s.coords else "1"
    return w.pick(WHOLE).format(d=_read(w, s), v=v)


def _table(w: Writer) -> Source:
    """Declare an input without a boundary condition."""
    return w.input(w.pick(TABLES), (w.pick([n for n in SIZES if n]),))


def guarded_gather(w: Writer) -> Source:
    """A read of an input or a Func that a select, or a chain of them, keeps in range."""
    v = dims_of(w, w.pick((1, 2, 2)))
    s, table = Scope(w, v), _table(w)
    name, length = table.name, f"{table.name}.shape[0]"
    if w.chance(35):  # a Func that cannot be computed outside the input
        (k,) = w.variables("k")
        name = w.func("t")
        w.add(f"{name}[{k}] = {at(table.name, (k,))} + 1")
    i, other = _number(w, s), f'au.cast("{w.pick(TABLES)}", {leaf(s)})'
    kind = w.integer(0, 3)
    if kind == 0:
        text = f"au.select({i} < 0, {other}, au.select({i} < {length}, {name}[{i}], {other}))"
    elif kind == 1:
        x = f'au.cast("float32", {_read(w, s)})'
        inside = w.pick((f"({x} >= 0.0) & ({x} < 1.0)", f"({x} > -0.05) & (1.0 > {x})"))
        text = f'au.select({inside}, {name}[au.cast("int32", {x} * au.cast("float32", {length}) * 0.5)], {other})'
    else:
        inside = w.pick(INSIDE).format(i=i, n=length, c=_condition(s))
        arms = f"{name}[{i}], {other}" if kind == 2 else f"{other}, {name}[{i}]"
        text = f"au.select({inside if kind == 2 else f'~({inside})'}, {arms})"
    f = w.func()
    w.add(f"{at(f, v)} = {text}")
    return source(w, f, v)


def counts(w: Writer) -> Source:
    """An update at an index that depends on data, where the predicate of its domain keeps it in range."""
    (k,) = w.variables("k")
    r, loops = reduction_domain(w, w.integer(1, 2))
    s, bins, f = Scope(w, loops), w.pick((3, 8, 1, 16)), w.func()
    i, dtype = _number(w, s), w.pick(("int32", "float32", "uint8", "float64", "int64", "float16", "bfloat16"))
    w.add(f"{f}[{k}] = {strong(Scope(w, (k,)), 0, dtype)}")
    w.add(f"{r}.where({w.pick(INSIDE).format(i=i, n=bins, c=_condition(s))})")
    at_bin, value = f"{f}[{i}]", f'au.cast("{dtype}", {loops[0]}) + au.cast("{dtype}", {leaf(s)})'
    form = w.pick((*ACCUMULATIONS, "{} + ({})", "{1}", "{1} - {0}"))
    w.add(f"{at_bin} = {form.format(at_bin, value)}")
    return source(w, f, (k,))


def masked_reduction(w: Writer) -> Source:
    """A reduction over the points where a predicate holds, with a read that it keeps in range."""
    v = dims_of(w, w.pick((1, 0, 2)))
    kind = w.pick((*REDUCTIONS, "au.argmax", "au.argmin"))
    if kind in REDUCTIONS:
        r, loops = reduction_domain(w, 1)
    else:
        r = w.fresh("r")
        w.add(f'{r} = RDom("{r}", x={w.pick((3, 1, 8))})')
        loops = (f"{r}.x",)
    s, table = Scope(w, (*v, *loops)), _table(w)
    i = w.pick((f"{v[-1]} + {loops[0]}" if v else loops[0], loops[0], f"{loops[0]} - 2", _number(w, s)))
    w.add(f"{r}.where({w.pick(INSIDE).format(i=i, n=f'{table.name}.shape[0]', c=_condition(s))})")
    value = f'au.cast("{w.pick(("int32", "float32", "uint8"))}", {table.name}[{i}])'
    f = w.func()
    w.add(f"{at(f, v)} = {kind}({value}, over={r})")
    return source(w, f, v, 1 if kind in REDUCTIONS else 2)


def stored_bins(w: Writer) -> Source:
    """A histogram and a table of integers that another Func stores."""
    v = dims_of(w, 1)
    (k,) = w.variables("k")
    n, b, h, f = w.pick((4, 9, 16)), w.func("b"), w.func(), w.func()
    value = f'au.cast("int32", {_read(w, Scope(w, v))})'
    _, loops = reduction_domain(w, 1)
    forms = (
        f"au.clamp({value}, 0, {n - 1})", f"{value} % {n}", f"au.select(({value} >= 0) & ({value} < {n}), {value}, 0)",
    )  # fmt: skip
    if w.chance(30):
        size = w.integer(1, n)
        w.add(f'q{b} = RDom("q{b}", x={size})')
        point = Scope(w, (*v, f"q{b}.x"))
        w.add(f'{at(b, v)} = au.argmax(au.cast("float32", {leaf(point)}), over=q{b})[0]')
    else:
        w.add(f"{at(b, v)} = {w.pick(forms)}")
    table = w.input("float32", (n,))
    w.add(f"{h}[{k}] = 0")
    w.add(f"{h}[{b}[{loops[0]}]] += 1")
    w.add(f"{at(f, v)} = {table.name}[{at(b, v)}] + {h}[{at(b, v)}]")
    return source(w, f, v)
