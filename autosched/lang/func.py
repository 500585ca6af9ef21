"""Func and Input, the arrays of a pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import DSLError
from autosched.lang.boundary import boundary_condition
from autosched.lang.definition_checks import Index, as_index, check_free_vars, check_stored, collect_rvars, known_range
from autosched.lang.dtypes import DType, as_dtype
from autosched.lang.expr import Const, Expr, ExprLike, Load, RVar, ShapeDim, Var, check_name, walk
from autosched.lang.functions import all_of, select
from autosched.lang.operators import as_expr, to_strong_type, with_default_type
from autosched.lang.predicates import masked_update, predicate_of
from autosched.lang.source_location import SourceLocation, caller_location

Value = ExprLike | Sequence[ExprLike]
_DEFAULT_DIMS = ("n", "d", "c", "y", "x")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Definition:
    """One stage of a Func: the pure definition (indices are its Vars) or an update.

    ``values`` has one expression per tuple component, each of the component's type; it is empty for ``undef``.
    ``rvars`` are the reduction loops in order, outermost first.
    """

    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    rvars: tuple[RVar, ...]
    location: SourceLocation | None

    @property
    def pure_vars(self) -> tuple[Var, ...]:
        """The Vars among the indices, in index order."""
        return tuple(i for i in self.indices if isinstance(i, Var))


def _same(a: Expr, b: Expr) -> bool:
    """Whether two indices are the same variable or the same constant."""
    if isinstance(a, Var) and isinstance(b, Var):
        return a.name == b.name
    if isinstance(a, Const) and isinstance(b, Const):
        return a.value == b.value
    return a is b


class Undef:
    """Pure definition without values: updates must write every point before it is read."""

    def __init__(self, *dtypes: DType | str | type) -> None:
        self.dtypes = tuple(as_dtype(d) for d in dtypes)


def undef(*dtypes: DType | str | type) -> Undef:
    """Return a pure definition with types but without values.

    Example:
        >>> from autosched import Func, Var, float32, undef
        >>> f = Func("f")
        >>> f[Var("x")] = undef(float32)
        >>> f
        f[x] = undef(float32)
    """
    return Undef(*dtypes)


class TupleRef(tuple[Expr, ...]):
    """The components of a tuple-valued Func at one point."""

    __slots__ = ()


class Func:
    """A function from integer coordinates to values, defined once and updated any number of times.

    Args:
        name: Name in loop nests, errors and generated code; made unique within a pipeline.

    Example:
        >>> from autosched import Func, Input, Var, float32
        >>> x, img = Var("x"), Input("img", float32, 1)
        >>> double = Func("double")
        >>> double[x] = img[x] * 2
        >>> double
        double[x] = img[x] * 2.0
    """

    def __init__(self, name: str) -> None:
        check_name(name, "Func")
        self.name = name
        self.number = next(_numbers)  # order of creation
        self.location = caller_location()
        self.boundary: str | None = None
        self.boundary_ranges: dict[str, tuple[Expr, Expr]] = {}
        self.atomic = False  # whether updates are atomic; set by rewrites only
        self._dtypes: tuple[DType, ...] = ()
        self._definitions: list[Definition] = []

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The pure definition and the updates: the Func's stages, in order."""
        return tuple(self._definitions)

    @property
    def vars(self) -> tuple[Var, ...]:
        """The dimensions, outermost (slowest in memory) first."""
        return self._pure.pure_vars

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions, outermost first."""
        return tuple(v.name for v in self.vars)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._pure.indices)

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Element type of each tuple component."""
        self._pure  # noqa: B018 - raises for an undefined Func
        return self._dtypes

    @property
    def dtype(self) -> DType:
        """Element type (of the first component)."""
        return self.dtypes[0]

    @property
    def is_tuple(self) -> bool:
        """Whether the Func has more than one value per point."""
        return len(self._dtypes) > 1

    @property
    def is_defined(self) -> bool:
        """Whether there is a pure definition."""
        return bool(self._definitions)

    @property
    def _pure(self) -> Definition:
        if not self._definitions:
            raise DSLError(
                f"Func {self.name!r} is undefined: it is read before it has a definition",
                location=caller_location() or self.location,
                hint=f"write {self.name}[...] = ... first (for a sum start with {self.name}[...] = 0)",
            )
        return self._definitions[0]

    def __getitem__(self, index: Index) -> Any:
        indices = as_index(index, self.ndim, f"Func {self.name!r}")
        loads = tuple(Load(self, indices, d, k) for k, d in enumerate(self.dtypes))
        return TupleRef(loads) if self.is_tuple else loads[0]

    def __setitem__(self, index: Index, value: Value | Undef) -> None:
        location = caller_location()
        if not self._definitions:
            self._define(index, value, location)
        else:
            self.update(index, value, location=location)

    def _define(self, index: Index, value: Value | Undef, location: SourceLocation | None) -> None:
        indices = index if isinstance(index, tuple) else (index,)
        names = [i.name for i in indices if isinstance(i, Var)]
        if len(names) != len(indices) or len(set(names)) != len(names):
            raise DSLError(
                f"the first definition of {self.name!r} must have a different Var in each dimension",
                location=location,
                hint="fixed points and reduction domains belong in updates, after a pure definition",
            )
        if isinstance(value, Undef):
            self._dtypes = value.dtypes
            values: tuple[Expr, ...] = ()
        else:
            values = tuple(with_default_type(as_expr(v)) for v in _components(value))
            self._dtypes = tuple(v.dtype for v in values)
        if not self._dtypes:
            raise DSLError(f"the definition of {self.name!r} gives no value", location=location)
        rvars = collect_rvars(values)
        if rvars:
            raise DSLError(
                f"the pure definition of {self.name!r} uses the reduction variable {rvars[0].name!r}",
                location=location,
                hint=f"define {self.name}[...] = 0 first and add in an update, or use autosched.sum(e, over=r)",
            )
        check_free_vars(self.name, values, set(names), location)
        self._definitions.append(Definition(tuple(indices), values, (), location))  # type: ignore[arg-type]

    def update(
        self,
        index: Index,
        value: Value | Undef,
        *,
        over: Sequence[RVar] = (),
        location: SourceLocation | None = None,
    ) -> None:
        """Add an update, as ``f[index] = value`` does after the pure definition.

        Args:
            index: The point that is written.
            value: One value for each tuple component, cast to the Func's types.
            over: Reduction loops to run even if neither index nor value depends on them.
            location: Line of the user's source; by default that of the caller.

        The update applies only where the predicates of its reduction domains hold (`RDom.where`).

        Raises:
            DSLError: If index or value does not fit the Func.
        """
        self._add_update(index, value, over, location or caller_location())

    def _add_update(
        self,
        index: Index,
        value: Value | Undef,
        over: Sequence[RVar],
        location: SourceLocation | None,
        predicated: bool = True,
    ) -> None:
        """Add an update; see `update`.

        Args:
            index: The point that is written.
            value: One value for each tuple component.
            over: Reduction loops to run in any case.
            location: Line of the user's source.
            predicated: Whether predicates of reduction domains apply; reductions have applied them to their terms.
        """
        if isinstance(value, Undef):
            raise DSLError(f"undef can only be the pure definition of {self.name!r}", location=location)
        indices = as_index(index, self.ndim, f"Func {self.name!r}")
        components = [as_expr(v) for v in _components(value)]
        if len(components) != len(self._dtypes):
            raise DSLError(
                f"{self.name!r} has {len(self._dtypes)} values a point, the update gives {len(components)}",
                location=location,
            )
        for v, d in zip(components, self._dtypes, strict=True):
            check_stored(v, d)
        values = tuple(to_strong_type(v, d) for v, d in zip(components, self._dtypes, strict=True))
        predicate = predicate_of((*indices, *values), over) if predicated else None
        if predicate is not None:
            indices, values = masked_update(self, indices, values, predicate)
        free = {e.name for e, dim in zip(indices, self.dims, strict=True) if isinstance(e, Var) and e.name == dim}
        for axis, e in enumerate(indices):
            for v in (n for n in walk(e) if isinstance(n, Var)):
                if v.name not in free:
                    raise DSLError(
                        f"update of {self.name!r}: Var {v.name!r} in index {axis} must also stand alone in the "
                        f"dimension {v.name!r} of {self.name!r}",
                        location=location,
                        hint="use a reduction domain (RDom) to write at computed positions",
                    )
        check_free_vars(self.name, (*values, *indices), free, location)
        self._check_self_reads(indices, values, location)
        self._definitions.append(Definition(indices, values, collect_rvars((*indices, *values), over), location))

    def _check_self_reads(
        self, indices: tuple[Expr, ...], values: tuple[Expr, ...], location: SourceLocation | None
    ) -> None:
        """Refuse a self-read that differs from the written point in dimensions of pure Vars alone.

        Iterations of a pure Var have no order. Self-reads that also differ in other dimensions are checked once shapes
        are bound (`autosched.analysis.access.dependence`).
        """
        for root in (*values, *indices):
            for node in walk(root):
                if isinstance(node, Load) and node.source is self:
                    moved = [k for k, (e, at) in enumerate(zip(indices, node.indices, strict=True)) if not _same(e, at)]
                    if moved and all(isinstance(indices[k], Var) for k in moved):
                        var, at = indices[moved[0]], node.indices[moved[0]]
                        raise DSLError(
                            f"update of {self.name!r} reads itself at {at!r} in dimension '{var!r}', "
                            f"which it writes at every {var!r}",
                            location=location,
                            hint=f"iterate over that dimension with a reduction domain instead of the Var {var!r}",
                        )

    def over(self, **box: tuple[ExprLike, ExprLike]) -> Output:
        """Declare the output box: half-open ranges ``dim=(low, high)`` by dimension name.

        Raises:
            DSLError: If a dimension is missing or unknown, or a range depends on more than shapes and parameters.
        """
        wrong = set(box) ^ set(self.dims)
        if wrong:
            raise DSLError(
                f"over() of {self.name!r} needs exactly the dimensions {', '.join(self.dims)}; differs in "
                f"{', '.join(sorted(wrong))}",
                location=caller_location(),
            )
        return Output(self, tuple(known_range(box[d], f"{d} in over() of {self.name!r}") for d in self.dims))

    def clamped(self, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return this Func with coordinates clamped into half-open ranges, e.g. ``y=(0, h)``."""
        return _with_boundary(self, "clamped", ranges)

    def mirrored(self, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return this Func mirrored at the edges, the edge element repeated."""
        return _with_boundary(self, "mirrored", ranges)

    def mirrored_without_edge(self, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return this Func mirrored at the edges, the edge element not repeated."""
        return _with_boundary(self, "mirrored_without_edge", ranges)

    def wrapped(self, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return this Func repeated periodically."""
        return _with_boundary(self, "wrapped", ranges)

    def constant(self, value: ExprLike, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return this Func with ``value`` outside the ranges."""
        return _with_boundary(self, "constant", ranges, value)

    def __iter__(self) -> Iterator[Expr]:
        raise TypeError("a Func is not iterable; index it: f[y, x]")

    def __repr__(self) -> str:
        if not self._definitions:
            return f"Func({self.name!r}, undefined)"
        lines = []
        for d in self._definitions:
            at = ", ".join(map(repr, d.indices)) or "()"
            value = ", ".join(map(repr, d.values)) if d.values else f"undef({', '.join(map(repr, self._dtypes))})"
            lines.append(f"{self.name}[{at}] = {value}")
        return "\n".join(lines)


class Input:
    """An array passed by the caller, C-contiguous, last dimension fastest.

    Args:
        name: Keyword of the argument.
        dtype: Element type; a call refuses arrays of another type.
        ndim: Number of dimensions.
        dims: Their names for boundary conditions; by default the last of ``n, d, c, y, x``.
    """

    is_tuple = False

    def __init__(self, name: str, dtype: DType | str | type, ndim: int, *, dims: Sequence[str] | None = None) -> None:
        check_name(name, "Input")
        if not 0 <= ndim <= 8:
            raise DSLError(f"Input {name!r} has {ndim} dimensions", location=caller_location(), hint="use 0 to 8")
        self.name = name
        self.dtype = as_dtype(dtype)
        self.ndim = ndim
        default = tuple(f"d{i}" for i in range(max(0, ndim - 5))) + _DEFAULT_DIMS[max(0, 5 - ndim) :]
        self.dims: tuple[str, ...] = tuple(dims) if dims is not None else default[:ndim]
        for dim in self.dims:
            check_name(dim, f"dimension of Input {name!r}:")
        if len(self.dims) != ndim or len(set(self.dims)) != ndim:
            raise DSLError(f"Input {name!r}: dims must be {ndim} different names", location=caller_location())
        self.location = caller_location()

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Element type, as a tuple of one."""
        return (self.dtype,)

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Extents as integer expressions, constant once shapes are bound."""
        return tuple(ShapeDim(self, axis) for axis in range(self.ndim))

    def __getitem__(self, index: Index) -> Expr:
        return Load(self, as_index(index, self.ndim, f"Input {self.name!r}"), self.dtype)

    def clamped(self, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return the input with coordinates clamped into its shape; all dimensions unless some are named."""
        return _with_boundary(self, "clamped", ranges)

    def mirrored(self, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return the input mirrored at its edges, the edge element repeated."""
        return _with_boundary(self, "mirrored", ranges)

    def mirrored_without_edge(self, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return the input mirrored at its edges, the edge element not repeated."""
        return _with_boundary(self, "mirrored_without_edge", ranges)

    def wrapped(self, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return the input repeated periodically."""
        return _with_boundary(self, "wrapped", ranges)

    def constant(self, value: ExprLike, **ranges: tuple[ExprLike, ExprLike]) -> Func:
        """Return the input with ``value`` outside its shape."""
        return _with_boundary(self, "constant", ranges, value)

    def __repr__(self) -> str:
        return f"Input({self.name!r}, {self.dtype}, {self.ndim})"


@dataclass(frozen=True, slots=True)
class Output:
    """A Func that a pipeline returns, over a half-open box, one ``(low, high)`` per dimension, or a deduced box."""

    func: Func
    box: tuple[tuple[Expr, Expr], ...] | None = None


def _components(value: Value) -> tuple[ExprLike, ...]:
    if isinstance(value, tuple | list):
        return tuple(value)
    return (value,)  # type: ignore[return-value]


def source_of(load: Load) -> Func | Input:
    """Return the Func or Input that a load reads."""
    source = load.source
    assert isinstance(source, Func | Input), f"{load!r} reads neither a Func nor an Input"
    return source


def _with_boundary(
    source: Func | Input, kind: str, ranges: Mapping[str, tuple[ExprLike, ExprLike]], value: ExprLike | None = None
) -> Func:
    """Return a Func over all integers that reads ``source`` only inside ``ranges``.

    Args:
        source: A Func (ranges needed) or an Input (all dimensions over its shape unless some are named).
        kind: One of `autosched.lang.boundary.KINDS`.
        ranges: Half-open range by dimension name; dimensions not named are read as they are.
        value: Value of ``constant`` outside.

    Raises:
        DSLError: For an unknown dimension, a Func without ranges, or a range that is empty or depends on data.
    """
    location = caller_location()
    unknown = set(ranges) - set(source.dims)
    if unknown:
        raise DSLError(
            f"{source.name!r} has no dimension {', '.join(sorted(unknown))}; it has {', '.join(source.dims)}",
            location=location,
        )
    if not ranges:
        if isinstance(source, Func):
            raise DSLError(
                f"a boundary condition on Func {source.name!r} needs ranges, as a Func has no edges",
                location=location,
                hint=f"{source.name}.{kind}({source.dims[-1] if source.dims else 'x'}=(0, width))",
            )
        ranges = {dim: (0, source.shape[axis]) for axis, dim in enumerate(source.dims)}
    point = tuple(Var(dim) for dim in source.dims)
    f = Func(f"{source.name}_{kind}")
    f.boundary = kind
    condition = boundary_condition(source, kind, point, ranges)
    f.boundary_ranges.update(condition.ranges)
    read = source[condition.index]
    if kind == "constant":
        outside = value if value is not None else 0
        values = [select(all_of(*condition.inside), v, outside) for v in (read if isinstance(read, tuple) else (read,))]
        f[point] = values if source.is_tuple else values[0]
    else:
        f[point] = read
    return f
