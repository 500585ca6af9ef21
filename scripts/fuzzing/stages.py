"""Random Funcs as text: each function defines one Func from earlier ones and returns it as a source."""

from __future__ import annotations

from collections.abc import Callable

from fuzzing.expressions import Scope, condition, expression, leaf, read, strong
from fuzzing.writer import DIMS, SIZES, TYPES, Source, Writer, at

Stage = Callable[[Writer], Source]

BOUNDARIES = ("clamped", "mirrored", "mirrored_without_edge", "wrapped", "constant")
REDUCTIONS = ("au.sum", "au.maximum", "au.minimum", "au.prod")
ACCUMULATIONS = ("{} + {}", "au.max({}, {})", "au.min({}, {})", "{} * {}", "{} - {}")


def input_source(w: Writer, dtype: str | None = None, shape: tuple[int, ...] | None = None) -> Source:
    """Declare an Input with a boundary condition, so that it is readable everywhere."""
    if shape is None:
        shape = tuple(w.pick(SIZES[:6]) for _ in range(w.pick((0, 1)))) + tuple(
            w.pick(SIZES) for _ in range(w.pick((1, 2, 2)))
        )
    image = w.input(dtype or (w.pick(("float32", *TYPES))), shape)
    name = w.fresh("k")
    if not shape or 0 in shape or w.chance(15):
        w.variables(*image.dims)
        w.func("k")
        inside = [f"au.clamp({d}, 0, {image.name}.shape[{k}] - 1)" for k, d in enumerate(image.dims)]
        w.add(f"{at(name, image.dims)} = {at(image.name, inside)}")
    else:
        kind = w.pick(BOUNDARIES)
        value = "True" if w.dtype(at(image.name, ["0"] * image.ndim)).kind == "b" else w.pick(("0", "1", "7"))  # type: ignore[union-attr]
        w.add(f"{name} = {image.name}.{kind}({value if kind == 'constant' else ''})")
    return source(w, name, image.dims)


def source(w: Writer, name: str, dims: tuple[str, ...], components: int = 1) -> Source:
    """Record a Func as readable by later ones."""
    w.sources.append(Source(name, dims, None, components))
    return w.sources[-1]


def dims_of(w: Writer, ndim: int | None = None) -> tuple[str, ...]:
    """Return the Vars of a new Func of a given or random rank."""
    n = w.pick((2, 2, 1, 1, 3, 2, 0)) if ndim is None else ndim
    return w.variables(*DIMS[4 - n :])


def pointwise(w: Writer) -> Source:
    """A formula at every point."""
    v = dims_of(w)
    text = expression(Scope(w, v), w.integer(1, 3))
    name = w.func()
    if not w.accepts(f"{at(name, v)} = {text}"):
        w.add(f"{at(name, v)} = {strong(Scope(w, v), 0)}")
    return source(w, name, v)


def stencil(w: Writer) -> Source:
    """A combination of neighbours along one or two dimensions."""
    func = w.sources[-1] if w.chance(60) else w.pick(w.sources)
    v = dims_of(w, max(func.ndim, 1))
    component = "[0]" if func.components > 1 else ""
    reads = []
    for dy, dx in w.pick((((0, -1), (0, 0), (0, 1)), ((-1, 0), (1, 0)), ((0, 0), (1, 1), (-1, -1)), ((0, 2), (2, -3)))):
        steps = (0, 0, 0, dy, dx)[5 - func.ndim :]
        reads.append(at(func.name, [f"{d} + {s}" if s else d for d, s in zip(v, steps, strict=False)]) + component)
    form = w.pick(("{} + {}", "au.max({}, {})", "au.min({}, {})", "{} + 3 * {}", "{} - {}"))
    kind = w.dtype(reads[0])
    text = reads[0] if kind is None or kind.kind != "b" else f'au.cast("int32", {reads[0]})'
    for term in reads[1:]:
        text = form.format(text, term)
    name = w.func()
    w.add(f"{at(name, v)} = {text}")
    return source(w, name, v)


def resample(w: Writer) -> Source:
    """Downsampling, or upsampling that depends on parity."""
    func = w.sources[-1]
    v = dims_of(w, max(func.ndim, 1))
    name = w.func()
    axis = w.integer(0, max(func.ndim - 1, 0))
    component = "[0]" if func.components > 1 else ""

    def moved(form: str) -> str:
        return at(func.name, [form.format(d) if k == axis else d for k, d in enumerate(v[: func.ndim])]) + component

    if w.chance(50):
        f, s = w.integer(2, 4), w.integer(-1, 1)
        text = f"au.select({condition(Scope(w, v), 0)}, {moved(f'{f} * {{}} + {s}')}, {moved(f'{f} * {{}} + 1')})"
    else:
        near, far = moved("{} // 2"), moved("{} // 2 + 1")
        text = f"au.select({v[axis]} % 2 == {w.integer(0, 1)}, {near}, au.max({near}, {far}))"
    if not w.accepts(f"{at(name, v)} = {text}"):
        w.add(f"{at(name, v)} = {moved('2 * {}')}")
    return source(w, name, v)


def gather(w: Writer) -> Source:
    """A table indexed by values of another Func."""
    v = dims_of(w)
    s = Scope(w, v)
    (k,) = w.variables("k")
    table, name = w.func("t"), w.func()
    w.add(f"{table}[{k}] = {strong(Scope(w, (k,)), 1)}")
    kind = w.pick(("uint8", "int8", "clamp", "mod"))
    value = leaf(s)
    text = f'au.cast("int32", {value})' if kind in ("clamp", "mod") else f'au.cast("{kind}", {value})'
    text = f"au.clamp({text}, -2, 9)" if kind == "clamp" else f"{text} % 6" if kind == "mod" else text
    w.add(f"{at(name, v)} = {table}[{text}]")
    return source(w, name, v)


def reduction_domain(w: Writer, ndim: int) -> tuple[str, tuple[str, ...]]:
    """Declare a reduction domain; return its name and the texts of its loops."""
    name = w.fresh("r")
    bounds = []
    for d in DIMS[4 - ndim :]:
        low = w.pick((0, 0, -1, 1))
        size = w.pick((3, 2, 1, 5, 8, 0)) if ndim > 1 else w.pick((3, 2, 5, 1, 8, 13, 16, 17, 0))
        bounds.append(f"{d}=({low}, {low + size})")
    if w.bounds and w.chance(15):
        bounds[0] = f"{DIMS[4 - ndim]}=(0, {w.pick(w.bounds)})"
    w.add(f'{name} = RDom("{name}", {", ".join(bounds)})')
    return name, tuple(f"{name}.{d}" for d in DIMS[4 - ndim :])


def reduction(w: Writer) -> Source:
    """A sum, product, maximum or minimum over a window or additional dimensions."""
    v = dims_of(w, w.pick((2, 1, 0, 2)))
    r, loops = reduction_domain(w, w.integer(1, 2))
    text = expression(Scope(w, _window_point(w, v, loops)), w.integer(0, 2))
    name = w.func()
    kind = w.pick(REDUCTIONS)
    if not w.accepts(f"{at(name, v)} = {kind}({text}, over={r})"):
        w.add(
            f'{at(name, v)} = {kind}(au.cast("{w.pick(("int32", "float32", "uint8", "float64"))}", {text}), over={r})'
        )
    return source(w, name, v)


def arg_reduction(w: Writer) -> Source:
    """The first position of the largest or smallest value, and the value."""
    v = dims_of(w, w.pick((1, 2, 0)))
    r, loops = reduction_domain(w, w.pick((1, 1, 2)))
    text = strong(
        Scope(w, _window_point(w, v, loops)),
        w.integer(0, 1),
        w.pick(("float32", "float64", "float16", "bfloat16", *TYPES)),
    )
    name = w.func()
    w.add(f"{at(name, v)} = {w.pick(('au.argmax', 'au.argmin'))}({text}, over={r})")
    return source(w, name, v, len(loops) + 1)


def _window_point(w: Writer, v: tuple[str, ...], loops: tuple[str, ...]) -> tuple[str, ...]:
    """Return a point of Vars and loops: a window around each Var, or additional dimensions."""
    rest = list(loops)
    window = w.chance(50)
    coords = [f"{i} + {rest.pop()}" if rest and window else i for i in reversed(v)]
    return tuple([*rest, *reversed(coords)][-4:])


def product(w: Writer) -> Source:
    """A matrix product of two Funcs."""
    v = dims_of(w, 2)
    r = w.fresh("r")
    w.add(f'{r} = RDom("{r}", k={w.pick(SIZES)})')
    name, dtype = w.func(), w.pick(("float32", "int32", "float64", "uint16", "float16", "bfloat16"))
    left = read(Scope(w, (v[0], f"{r}.k"), moves=False), w.pick(w.sources))
    right = read(Scope(w, (f"{r}.k", v[1]), moves=False), w.pick(w.sources))
    w.add(f'{at(name, v)} = au.cast("{dtype}", 0)')
    w.add(f'{at(name, v)} += au.cast("{dtype}", {left}) * au.cast("{dtype}", {right})')
    return source(w, name, v)


def tuple_valued(w: Writer) -> Source:
    """Several values at a point."""
    v = dims_of(w)
    parts = [strong(Scope(w, v), 1) for _ in range(w.integer(2, 3))]
    name = w.func()
    w.add(f"{at(name, v)} = ({', '.join(parts)})")
    return source(w, name, v, len(parts))


def bounded(w: Writer) -> Source:
    """A boundary condition on a Func over ranges."""
    func = w.pick([s for s in w.sources if s.ndim and s.components == 1] or w.sources)
    if not func.ndim or func.components > 1:
        return pointwise(w)
    chosen = [d for d in func.dims if w.chance(70)] or [func.dims[-1]]
    ranges = ", ".join(f"{d}=({low}, {low + w.pick(SIZES)})" for d in chosen for low in [w.pick((0, 1, -2))])
    kind = w.pick(BOUNDARIES)
    name = w.fresh("k")
    text = at(func.name, ["0"] * func.ndim)
    kind_of = w.dtype(text)
    value = "True, " if kind_of is not None and kind_of.kind == "b" else "1, "
    w.add(f"{name} = {func.name}.{kind}({value if kind == 'constant' else ''}{ranges})")
    return source(w, name, func.dims)


def outputs(w: Writer, *chosen: Source) -> None:
    """List Funcs as outputs over random boxes."""
    for s in chosen:
        box = []
        for k in range(s.ndim):
            low = w.pick((0, 0, 0, 1, -3))
            size = w.pick(SIZES) if k >= s.ndim - 2 else w.pick((1, 2, 3))
            box.append((low, low + size))
        w.output(s.name, box, s.dims)
