"""Expression nodes: small frozen records, built by Python operators.

Python scalars, ``Var`` and ``RVar`` are weakly typed: they take the type of the other operand. A weak integer
expression (``2*x + 1``) is an exact integer; as a value it becomes int32. ``==`` builds a comparison, so nodes hash
and compare by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Protocol

from autosched.errors import DSLError
from autosched.lang.dtypes import DType, as_dtype, int32
from autosched.lang.source_location import caller_location

Scalar = int | float | bool

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


@dataclass(frozen=True, slots=True)
class ExpressionBuilders:
    """The functions behind the operators and the ``repr`` of `Expr`, which build and print nodes of every class.

    Attributes:
        binary: Builds ``a op b``, with promotion of the operands.
        unary: Builds ``op a``.
        power: Builds ``a ** b``.
        text: Returns an expression in Python syntax.
    """

    binary: Callable[[str, Any, Any], Expr]
    unary: Callable[[str, Any], Expr]
    power: Callable[[Any, Any], Expr]
    text: Callable[[Expr], str]


class Source(Protocol):
    """An array that a `Load` reads: `autosched.lang.func.Func` or `autosched.lang.func.Input`."""

    name: str

    @property
    def ndim(self) -> int:
        """Number of dimensions."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions, outermost first."""

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Element type of each tuple component."""

    @property
    def dtype(self) -> DType:
        """Element type of the first component."""

    @property
    def is_tuple(self) -> bool:
        """Whether a point has more than one value."""


class Expr:
    """Base of all expression nodes, with Python's operators."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy scalars on the left leave the operator to this class
    builders: ClassVar[ExpressionBuilders]  # set by `autosched.lang.operators`, which the package imports
    dtype: DType
    weak: bool

    def __add__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("add", self, o)

    def __radd__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("add", o, self)

    def __sub__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("sub", self, o)

    def __rsub__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("sub", o, self)

    def __mul__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("mul", self, o)

    def __rmul__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("mul", o, self)

    def __truediv__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("truediv", self, o)

    def __rtruediv__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("truediv", o, self)

    def __floordiv__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("floordiv", self, o)

    def __rfloordiv__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("floordiv", o, self)

    def __mod__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("mod", self, o)

    def __rmod__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("mod", o, self)

    def __and__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("and", self, o)

    def __rand__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("and", o, self)

    def __or__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("or", self, o)

    def __ror__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("or", o, self)

    def __xor__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("xor", self, o)

    def __rxor__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("xor", o, self)

    def __lshift__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("shl", self, o)

    def __rlshift__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("shl", o, self)

    def __rshift__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("shr", self, o)

    def __rrshift__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("shr", o, self)

    def __lt__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("lt", self, o)

    def __le__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("le", self, o)

    def __gt__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("gt", self, o)

    def __ge__(self, o: ExprLike) -> Expr:
        return Expr.builders.binary("ge", self, o)

    def __eq__(self, o: object) -> Expr:  # type: ignore[override]
        return Expr.builders.binary("eq", self, o)

    def __ne__(self, o: object) -> Expr:  # type: ignore[override]
        return Expr.builders.binary("ne", self, o)

    def __hash__(self) -> int:
        return id(self)

    def __neg__(self) -> Expr:
        return Expr.builders.unary("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return Expr.builders.unary("not", self)

    def __abs__(self) -> Expr:
        return Expr.builders.unary("abs", self)

    def __pow__(self, o: ExprLike) -> Expr:
        return Expr.builders.power(self, o)

    def __rpow__(self, o: ExprLike) -> Expr:
        return Expr.builders.power(o, self)

    def __bool__(self) -> bool:
        raise DSLError(
            "an expression has no truth value while the pipeline is being built",
            location=caller_location(),
            hint="use select(condition, a, b), and & | ~ instead of and/or/not",
        )

    def __iter__(self) -> Iterator[Expr]:
        raise TypeError(f"{type(self).__name__} is not iterable")

    def __repr__(self) -> str:
        return Expr.builders.text(self)


ExprLike = Expr | int | float | bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Const(Expr):
    """A literal; weak when built from a Python scalar."""

    value: Scalar
    dtype: DType
    weak: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """A dimension of a Func: a name for every integer."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name, "Var")

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """int32 where a value is needed."""
        return int32

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Always true: takes the type of the other operand."""
        return True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RVar(Expr):
    """One loop of a reduction domain, half-open ``[lower, upper)``; bounds are integers once shapes are bound.

    ``order`` sorts loops: domains by creation, dimensions as written. ``predicates`` are the conditions of its domain,
    which later definitions apply; definitions do not contain them.
    """

    name: str
    lower: Expr
    upper: Expr
    order: int
    predicates: list[Expr] = field(default_factory=list)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """int32 where a value is needed."""
        return int32

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Always true: takes the type of the other operand."""
        return True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Param(Expr):
    """A scalar parameter of the pipeline, passed at every call; ``default`` where the caller omits it."""

    name: str
    dtype: DType
    default: Scalar | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "Param")
        object.__setattr__(self, "dtype", as_dtype(self.dtype))
        if self.default is not None and not self.dtype.holds(self.default):
            raise DSLError(
                f"default {self.default!r} of Param {self.name!r} does not fit {self.dtype}",
                location=caller_location(),
            )

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Parameters are strongly typed."""
        return False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapeDim(Expr):
    """``img.shape[axis]``: a constant once shapes are bound."""

    input: Source
    axis: int

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """int32 where a value is needed."""
        return int32

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Always true."""
        return True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Load(Expr):
    """A read of one value of a Func or Input at an index."""

    source: Source
    indices: tuple[Expr, ...]
    dtype: DType
    component: int = 0

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Loads are strongly typed."""
        return False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Expr):
    """``neg``, ``not`` (logical on bool, bitwise on integers) or ``abs``."""

    op: str
    a: Expr
    dtype: DType
    weak: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Expr):
    """An operation between operands of one type (comparisons give bool)."""

    op: str
    a: Expr
    b: Expr
    dtype: DType
    weak: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(Expr):
    """``t`` where the condition holds, else ``f``; both arms are always in range."""

    cond: Expr
    t: Expr
    f: Expr
    dtype: DType
    weak: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(Expr):
    """Conversion: integers wrap, float to int truncates and saturates, NaN gives 0."""

    a: Expr
    dtype: DType

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """A cast gives a strong type."""
        return False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expr):
    """A scalar function: ``exp``, ``sqrt``, ``pow``, ``hash_u32`` and so on."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Function values are strongly typed."""
        return False


def check_name(name: str, what: str) -> None:
    """Raise unless a name is an identifier, so that it can be printed and passed as a keyword."""
    if not isinstance(name, str) or not name.isidentifier():
        raise DSLError(f"{what} name {name!r} is not an identifier", location=caller_location())


def children(e: Expr) -> Sequence[Expr]:
    """Return the direct operands of a node (index expressions of a Load included)."""
    operands = _OPERANDS.get(type(e))
    return () if operands is None else operands(e)


# A table by type: binding reads the operands of every node several times.
_OPERANDS: Mapping[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    Load: attrgetter("indices"),
    Unary: lambda e: (e.a,),
    Cast: lambda e: (e.a,),
    Binary: attrgetter("a", "b"),
    Select: attrgetter("cond", "t", "f"),
    Call: attrgetter("args"),
}


def postorder(
    roots: Iterable[Expr], done: Container[int], operands: Callable[[Expr], Sequence[Expr]] = children
) -> Iterator[Expr]:
    """Yield the nodes under some roots whose ``id`` is not in ``done``, operands before their users.

    The caller adds each node's ``id`` to ``done`` before it advances the iterator. There is no recursion, so only
    memory limits the depth.
    """
    stack = list(roots)[::-1]
    while stack:
        node = stack.pop()
        if id(node) in done:
            continue
        pending = [c for c in operands(node) if id(c) not in done]
        if pending:
            stack.append(node)
            stack.extend(reversed(pending))
        else:
            yield node


def walk(*roots: Expr) -> Iterator[Expr]:
    """Yield every node under some roots once, parents before children; shared nodes are visited once."""
    seen: set[int] = set()
    stack = [*reversed(roots)]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if operands := children(node):
            stack.extend(reversed(operands))


def rebuild(e: Expr, new: Sequence[Expr]) -> Expr:
    """Return ``e`` with other operands; the same object when nothing changed."""
    if all(a is b for a, b in zip(children(e), new, strict=True)):
        return e
    match e:
        case Load():
            return Load(e.source, tuple(new), e.dtype, e.component)
        case Unary():
            return Unary(e.op, new[0], e.dtype, e.weak)
        case Cast():
            return Cast(new[0], e.dtype)
        case Binary():
            return Binary(e.op, new[0], new[1], e.dtype, e.weak)
        case Select():
            return Select(new[0], new[1], new[2], e.dtype, e.weak)
        case Call():
            return Call(e.name, tuple(new), e.dtype)
    return e
