"""Expression nodes: small frozen records, built by Python operators.

Python scalars, ``Var`` and ``RVar`` are weakly typed: they take the type of what they meet. A weak integer
expression (``2*x + 1``) is an exact integer; as a value it becomes int32. ``==`` builds a comparison, so nodes hash
and compare by identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.errors import DSLError
from autosched.lang.dtypes import DType, bool_, float32, int32, promote, true_division_dtype
from autosched.lang.location import caller_location

if TYPE_CHECKING:
    from autosched.lang.func import Func, Input

Scalar = int | float | bool

ARITHMETIC = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "min", "max"})
BITWISE = frozenset({"and", "or", "xor", "shl", "shr"})
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


class Expr:
    """Base of all expression nodes; carries the operators."""

    __slots__ = ()
    dtype: DType
    weak: bool

    def __add__(self, o: ExprLike) -> Expr:
        return binary("add", self, o)

    def __radd__(self, o: ExprLike) -> Expr:
        return binary("add", o, self)

    def __sub__(self, o: ExprLike) -> Expr:
        return binary("sub", self, o)

    def __rsub__(self, o: ExprLike) -> Expr:
        return binary("sub", o, self)

    def __mul__(self, o: ExprLike) -> Expr:
        return binary("mul", self, o)

    def __rmul__(self, o: ExprLike) -> Expr:
        return binary("mul", o, self)

    def __truediv__(self, o: ExprLike) -> Expr:
        return binary("truediv", self, o)

    def __rtruediv__(self, o: ExprLike) -> Expr:
        return binary("truediv", o, self)

    def __floordiv__(self, o: ExprLike) -> Expr:
        return binary("floordiv", self, o)

    def __rfloordiv__(self, o: ExprLike) -> Expr:
        return binary("floordiv", o, self)

    def __mod__(self, o: ExprLike) -> Expr:
        return binary("mod", self, o)

    def __rmod__(self, o: ExprLike) -> Expr:
        return binary("mod", o, self)

    def __and__(self, o: ExprLike) -> Expr:
        return binary("and", self, o)

    def __rand__(self, o: ExprLike) -> Expr:
        return binary("and", o, self)

    def __or__(self, o: ExprLike) -> Expr:
        return binary("or", self, o)

    def __ror__(self, o: ExprLike) -> Expr:
        return binary("or", o, self)

    def __xor__(self, o: ExprLike) -> Expr:
        return binary("xor", self, o)

    def __rxor__(self, o: ExprLike) -> Expr:
        return binary("xor", o, self)

    def __lshift__(self, o: ExprLike) -> Expr:
        return binary("shl", self, o)

    def __rlshift__(self, o: ExprLike) -> Expr:
        return binary("shl", o, self)

    def __rshift__(self, o: ExprLike) -> Expr:
        return binary("shr", self, o)

    def __rrshift__(self, o: ExprLike) -> Expr:
        return binary("shr", o, self)

    def __lt__(self, o: ExprLike) -> Expr:
        return binary("lt", self, o)

    def __le__(self, o: ExprLike) -> Expr:
        return binary("le", self, o)

    def __gt__(self, o: ExprLike) -> Expr:
        return binary("gt", self, o)

    def __ge__(self, o: ExprLike) -> Expr:
        return binary("ge", self, o)

    def __eq__(self, o: object) -> Expr:  # type: ignore[override]
        return binary("eq", self, _operand(o))

    def __ne__(self, o: object) -> Expr:  # type: ignore[override]
        return binary("ne", self, _operand(o))

    def __hash__(self) -> int:
        return id(self)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return unary("not", self)

    def __abs__(self) -> Expr:
        return unary("abs", self)

    def __pow__(self, o: ExprLike) -> Expr:
        from autosched.lang.functions import pow as power

        return power(self, o)

    def __bool__(self) -> bool:
        raise DSLError(
            "an expression has no truth value while the pipeline is being built",
            location=caller_location(),
            hint="use select(condition, a, b), and & | ~ instead of and/or/not",
        )

    def __iter__(self) -> Iterator[Expr]:
        raise TypeError(f"{type(self).__name__} is not iterable")

    def __repr__(self) -> str:
        from autosched.lang.show import show

        return show(self)


ExprLike = Expr | int | float | bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Const(Expr):
    """A literal; weak when it came from a Python scalar."""

    value: Scalar
    dtype: DType
    weak: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """A dimension of a Func: a name standing for every integer."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name, "Var")

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """int32 where a value is needed."""
        return int32

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Always true: takes the type of what it meets."""
        return True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RVar(Expr):
    """One loop of a reduction domain, half-open ``[lower, upper)``; bounds are integers once shapes are known.

    ``order`` sorts loops: domains by creation, dimensions as written.
    """

    name: str
    lower: Expr
    upper: Expr
    order: int

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """int32 where a value is needed."""
        return int32

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Always true: takes the type of what it meets."""
        return True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Param(Expr):
    """A scalar parameter of the pipeline, given at every call (``default`` if it is left out)."""

    name: str
    dtype: DType
    default: Scalar | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "Param")

    @property
    def weak(self) -> bool:  # type: ignore[override]
        """Parameters are strongly typed."""
        return False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapeDim(Expr):
    """``img.shape[axis]``: an integer known when shapes are bound."""

    input: Input
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

    source: Func | Input
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
    """Refuse a name that could not be shown or used as a keyword."""
    if not isinstance(name, str) or not name.isidentifier():
        raise DSLError(f"{what} name {name!r} is not an identifier", location=caller_location())


def _operand(o: object) -> ExprLike:
    if isinstance(o, Expr | int | float):
        return o
    return wrap(o)


def wrap(value: Any) -> Expr:
    """Return an expression: expressions as they are, Python and NumPy scalars as weak or typed constants.

    Raises:
        DSLError: If the value is no scalar.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return Const(value, bool_)
    if isinstance(value, int):
        return Const(value, int32, weak=True)
    if isinstance(value, float):
        return Const(value, float32, weak=True)
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        from autosched.lang.dtypes import as_dtype

        return Const(value.item(), as_dtype(value.dtype))
    raise DSLError(
        f"{type(value).__name__} cannot stand in an expression",
        location=caller_location(),
        hint="use a Func or Input with an index (f[y, x]), a Var, a Param or a number",
    )


def retype(e: Expr, dtype: DType) -> Expr:
    """Give an expression a strong type: weak constants are checked and converted, the rest is cast."""
    if isinstance(e, Const) and e.weak:
        return typed_const(e.value, dtype)
    if not e.weak and e.dtype == dtype:
        return e
    return Cast(e, dtype)


def typed_const(value: Scalar, dtype: DType) -> Const:
    """Return ``value`` as a strong constant.

    Raises:
        DSLError: If an integer type cannot hold it.
    """
    if dtype.is_float:
        return Const(float(dtype.numpy.type(value)), dtype)  # the value every backend will see
    if dtype.kind == "b":
        return Const(bool(value), dtype)
    number = int(value)
    if not dtype.min_value <= number <= dtype.max_value:
        raise DSLError(
            f"{number} does not fit {dtype}",
            location=caller_location(),
            hint="cast the other operand to a wider type first, e.g. cast(int32, e)",
        )
    return Const(number, dtype)


def strong(e: Expr) -> Expr:
    """Give a weak expression its default type (int32 or float32)."""
    return retype(e, e.dtype) if e.weak else e


def common_dtype(a: Expr, b: Expr) -> tuple[DType, bool]:
    """Return the type two operands meet in, and whether it is still weak."""
    if a.weak and b.weak:
        return (float32 if a.dtype.is_float or b.dtype.is_float else int32), True
    if a.weak or b.weak:
        weak, typed = (a, b) if a.weak else (b, a)
        if weak.dtype.is_float and not typed.dtype.is_float:
            return float32, False
        if typed.dtype.kind == "b":
            return weak.dtype, False
        return typed.dtype, False
    try:
        return promote(a.dtype, b.dtype), False
    except DSLError as e:
        raise DSLError(e.message, location=caller_location(), hint=e.hint) from None


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build ``a op b`` with promotion.

    Raises:
        DSLError: If the operand types do not allow it.
    """
    x, y = wrap(a), wrap(b)
    if op in ("shl", "shr", "and", "or", "xor"):
        return _bitwise(op, x, y)
    dtype, weak = common_dtype(x, y)
    if op in COMPARISONS:
        if weak and dtype.is_float:
            weak = False
        return Binary(op, x, y, bool_) if weak else Binary(op, retype(x, dtype), retype(y, dtype), bool_)
    if op == "truediv":
        target = true_division_dtype(dtype if x.weak else x.dtype, dtype if y.weak else y.dtype)
        if isinstance(x, Const) and isinstance(y, Const) and x.weak and y.weak and y.value != 0:
            return Const(x.value / y.value, float32, weak=True)
        return Binary(op, retype(x, target), retype(y, target), target)
    if dtype.kind == "b":
        raise DSLError(
            f"arithmetic ({op}) between bools",
            location=caller_location(),
            hint="use & | ^ for logic, or cast(int32, condition) to count",
        )
    if weak and dtype.kind == "i":
        return _weak_integer(op, x, y)
    folded = _fold(op, x, y, dtype) if weak else None
    return folded if folded is not None else Binary(op, retype(x, dtype), retype(y, dtype), dtype)


def _fold(op: str, x: Expr, y: Expr, dtype: DType) -> Expr | None:
    """Fold Python scalars that met only through ``wrap`` so that they stay weak."""
    if isinstance(x, Const) and isinstance(y, Const):
        folds: dict[str, Any] = {
            "add": lambda p, q: p + q, "sub": lambda p, q: p - q, "mul": lambda p, q: p * q,
            "min": min, "max": max,
        }  # fmt: skip
        if op in folds:
            return Const(folds[op](x.value, y.value), dtype, weak=True)
    return None


def _weak_integer(op: str, x: Expr, y: Expr) -> Expr:
    """Exact integer arithmetic on Vars and Python ints; by a non-constant divisor it is ordinary int32."""
    if op in ("floordiv", "mod"):
        if not isinstance(y, Const):
            return Binary(op, retype(x, int32), retype(y, int32), int32)
        if y.value == 0:
            raise DSLError(f"{x!r} {'//' if op == 'floordiv' else '%'} 0", location=caller_location())
        if isinstance(x, Const):
            quotient = int(x.value) // int(y.value)
            return Const(quotient if op == "floordiv" else int(x.value) % int(y.value), int32, weak=True)
    neutral = {"add": 0, "sub": 0, "mul": 1}.get(op)
    if isinstance(y, Const) and y.value == neutral and x.weak:
        return x
    if isinstance(x, Const) and x.value == neutral and op != "sub" and y.weak:
        return y
    folded = _fold(op, x, y, int32)
    return folded if folded is not None else Binary(op, x, y, int32, weak=True)


def _bitwise(op: str, x: Expr, y: Expr) -> Expr:
    if x.dtype.is_float or y.dtype.is_float:
        raise DSLError(f"{op} needs integers or bools, not {x.dtype} and {y.dtype}", location=caller_location())
    if x.weak and isinstance(y, Const) and op in ("shl", "shr") and 0 <= y.value < 31:
        return binary("mul" if op == "shl" else "floordiv", x, 1 << int(y.value))
    if x.weak and isinstance(y, Const) and op == "and" and y.value >= 0 and (int(y.value) + 1) & int(y.value) == 0:
        return binary("mod", x, int(y.value) + 1)
    if op in ("shl", "shr"):  # the count never widens the value
        dtype = x.dtype if not x.weak else (int32 if y.weak else promote(int32, y.dtype))
        if dtype.kind == "b":
            raise DSLError(f"{op} of a bool", location=caller_location(), hint="cast it to an integer first")
        count = typed_const(int(y.value) % dtype.bits, dtype) if isinstance(y, Const) else retype(y, dtype)
        return Binary(op, retype(x, dtype), count, dtype)
    dtype, _ = common_dtype(x, y)
    return Binary(op, retype(x, dtype), retype(y, dtype), dtype)


def unary(op: str, a: ExprLike) -> Expr:
    """Build ``-a``, ``~a`` or ``abs(a)``."""
    e = wrap(a)
    if op == "not":
        if e.dtype.is_float:
            raise DSLError("~ needs an integer or bool", location=caller_location())
        return Unary(op, strong(e), e.dtype)
    if e.dtype.kind == "b":
        raise DSLError(f"{op} of a bool", location=caller_location(), hint="use ~ for logical not")
    if isinstance(e, Const) and e.weak:
        return Const(-e.value if op == "neg" else abs(e.value), e.dtype, weak=True)
    if e.weak and op == "neg":
        return binary("mul", e, -1)
    if e.weak:
        return binary("max", e, binary("mul", e, -1))
    if op == "abs" and e.dtype.kind == "u":
        return e
    return Unary(op, e, e.dtype)


def children(e: Expr) -> Sequence[Expr]:
    """Return the direct operands of a node (index expressions of a Load included)."""
    match e:
        case Load():
            return e.indices
        case Unary() | Cast():
            return (e.a,)
        case Binary():
            return (e.a, e.b)
        case Select():
            return (e.cond, e.t, e.f)
        case Call():
            return e.args
        case _:
            return ()


def walk(e: Expr) -> Iterator[Expr]:
    """Yield every node once, parents before children; shared nodes are visited once."""
    seen: set[int] = set()
    stack = [e]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack.extend(reversed(children(node)))


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
