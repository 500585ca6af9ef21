"""The scalar helper functions with one version per element type, as C text.

In the templates `$S` is the type's suffix, `$T` its C name, and `$N` the C name of the unsigned type of the same width.
`$U` is the unsigned type for arithmetic that may wrap: at least 32 bits wide, as C promotes narrower types to int.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import Template

from autosched.lang.dtypes import ALL, DType, float32, float64

C_NAMES: dict[str, str] = {
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "float",
    "bfloat16": "float",
    "float32": "float",
    "float64": "double",
}
"""C type of a local variable of each element type; float16 and bfloat16 are computed in float32."""

UNARY_FUNCTIONS = (
    "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "atan", "asin", "acos", "floor", "ceil", "trunc", "round",
    "exp2", "expm1", "log2", "log10", "log1p", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
BINARY_FUNCTIONS = ("pow", "atan2", "fmod", "hypot", "copysign")

# C's round takes halves away from zero; rint takes them to even.
_LIBRARY_NAMES = {"round": "rint"}

# CUDA's conversions toward zero, which saturate.
_CUDA_CONVERSIONS = {"int32": "int", "uint32": "uint", "int64": "ll", "uint64": "ull"}

_UNSIGNED = """\
AS_FN $T as_floordiv_$S($T a, $T b) {
    return ($T)(b == 0 ? 0 : a / b);
}

AS_FN $T as_mod_$S($T a, $T b) {
    return ($T)(b == 0 ? 0 : a % b);
}
"""

_SIGNED = """\
// Rounds down. Of the magnitudes, a negative quotient is -ceil(n / d), which is ~((n - 1) / d).
AS_FN $T as_floordiv_$S($T a, $T b) {
    const $N inversion = ($N)($ZERO - (b < 0 ? a > 0 : a < 0));
    const $N n = ($N)(b < 0 ? (a > 0 ? ($U)a - 1 : $ZERO - ($U)a) : ($U)a ^ inversion);
    const $N d = ($N)(b < 0 ? $ZERO - ($U)b : ($U)b);
    return b == 0 ? 0 : ($T)(n / (b == 0 ? 1 : d) ^ inversion);
}

// Has the sign of b.
AS_FN $T as_mod_$S($T a, $T b) {
    return b == 0 ? ($T)0 : ($T)(($U)a - ($U)as_floordiv_$S(a, b) * ($U)b);
}

// The least number is its own magnitude.
AS_FN $T as_abs_$S($T a) {
    return ($T)(a < 0 ? $ZERO - ($U)a : ($U)a);
}
"""

_INTEGER = """\
AS_FN $T as_min_$S($T a, $T b) {
    return a < b ? a : b;
}

AS_FN $T as_max_$S($T a, $T b) {
    return a > b ? a : b;
}

// The count is taken modulo the width.
AS_FN $T as_shl_$S($T a, $T n) {
    return ($T)(($U)a << (n & $MASK));
}

AS_FN $T as_shr_$S($T a, $T n) {
    return ($T)(a >> (n & $MASK));
}
"""

_INT_MIN_MAX = """\
AS_FN $T as_min_$S($T a, $T b) {
    return b < a ? b : a;
}

AS_FN $T as_max_$S($T a, $T b) {
    return b > a ? b : a;
}
"""

# Equal numbers (zeros of either sign) give a. Written so that compilers see their minimum instruction in it.
_FLOAT = """\
AS_FN $T as_min_$S($T a, $T b) {
    const $T least = b < a ? b : a;
    return b != b ? b : least;
}

AS_FN $T as_max_$S($T a, $T b) {
    const $T most = b > a ? b : a;
    return b != b ? b : most;
}

AS_FN $T as_abs_$S($T a) {
    return AS_MATH(fabs$LETTER)(a);
}

// For operands that gcc must not see together: it takes 0 - x for -x where x is a converted integer.
AS_FN $T as_add_$S($T a, $T b) {
    return a + b;
}

AS_FN $T as_sub_$S($T a, $T b) {
    return a - b;
}
"""

# The steps are NumPy's, so that the results are its own to the last bit.
_FLOAT_DIVISION = """\
// Has the sign of b.
AS_FN $T as_mod_$S($T a, $T b) {
    const $T remainder = AS_MATH(fmod$LETTER)(a, b);
    if (b == 0) return remainder;
    if (remainder == 0) return AS_MATH(copysign$LETTER)(remainder, b);
    return (b < 0) != (remainder < 0) ? remainder + b : remainder;
}

// Rounds down; the quotient of a less the remainder is whole but for its rounding.
AS_FN $T as_floordiv_$S($T a, $T b) {
    if (b == 0) return a / b;
    const $T remainder = AS_MATH(fmod$LETTER)(a, b), quotient = (a - remainder) / b;
    const $T lower = remainder != 0 && (b < 0) != (remainder < 0) ? quotient - 1 : quotient;
    if (lower == 0) return AS_MATH(copysign$LETTER)(lower, a / b);
    const $T whole = AS_MATH(floor$LETTER)(lower);
    return lower - whole > ($T)0.5 ? whole + 1 : whole;
}
"""

_UNARY = """\
AS_FN $T as_${NAME}_$S($T a) {
    return AS_MATH($LIBRARY$LETTER)(a);
}
"""

# Numbers whose exponential over- or underflows the vector function takes one at a time, in 40 times as long: it is
# given half of such a number, and the result is squared, or made zero. Chosen by masks, as gcc calls it twice where it
# sees two conditions.
_EXPONENTIAL = """\
AS_FN $T as_exp_$S($T a) {
#ifdef AS_VECTOR_MATH
    const $N extreme = $ZERO - (AS_MATH(fabs$LETTER)(a) > $MOST), present = $ZERO - !(a < $LEAST);
    const $T half = a * ($T)0.5 > $LEAST / 2 ? a * ($T)0.5 : $LEAST / 2;
    const $T power = AS_MATH(exp$LETTER)(as_from_bits_$S((as_bits_$S(half) & extreme) | (as_bits_$S(a) & ~extreme)));
    const $N factor = (as_bits_$S(power) & extreme) | (as_bits_$S(($T)1) & ~extreme);
    return power * as_from_bits_$S(factor & present);
#else
    return AS_MATH(exp$LETTER)(a);
#endif
}
"""
_EXTREMES = {
    "f32": {"MOST": "87.0f", "LEAST": "-104.0f", "ZERO": "0u"},
    "f64": {"MOST": "708.0", "LEAST": "-746.0", "ZERO": "0ull"},
}
"""Arguments above which an exponential overflows its normal range, and below which it is zero."""

_BINARY = """\
AS_FN $T as_${NAME}_$S($T a, $T b) {
    return AS_MATH($LIBRARY$LETTER)(a, b);
}
"""

_TO_BOOL = """\
AS_FN bool as_cvt_b_$FS($F x) {
    return x != 0;
}
"""

# The number is brought into range first, with masks: converting one outside is undefined, and behind a branch or a
# conditional expression the conversion is not vectorised.
_TO_NARROW_SIGNED = """\
AS_FN $T as_cvt_${S}_$FS($F x) {
#ifdef __CUDACC__
    const int number = as_cvt_i32_$FS(x), above = number > $LEAST ? number : $LEAST;
    return ($T)(above < $MOST ? above : $MOST);
#else
    const $F number = as_from_bits_$FS(as_bits_$FS(x) & ($ZERO - (x == x)));
    const $F above = number > $LEAST ? number : $LEAST;
    return ($T)(int)(above < $MOST ? above : $MOST);
#endif
}
"""

_TO_NARROW_UNSIGNED = """\
AS_FN $T as_cvt_${S}_$FS($F x) {
#ifdef __CUDACC__
    const int number = as_cvt_i32_$FS(x), above = number > 0 ? number : 0;
    return ($T)(above < $MOST ? above : $MOST);
#else
    const $F above = as_from_bits_$FS(as_bits_$FS(x) & ($ZERO - (x > 0)));
    return ($T)(int)(above < $MOST ? above : $MOST);
#endif
}
"""

# A number too large is zero while it is converted, and becomes the limit of its sign after that. Two comparisons, of
# its size, are fewer than four of the number with both limits: half the instructions where lanes run one by one.
_TO_WIDE_SIGNED = """\
AS_FN $T as_cvt_${S}_$FS($F x) {
#ifdef __CUDACC__
    return $CUDA;
#else
    const $F size = AS_MATH(fabs$LETTER)(x), inside = size < $LIMIT ? x : 0;
    const $T number = ($T)inside, limit = ($T)(($B)as_bits_$FS(x) >> $LAST) ^ $MOST;
    return size >= $LIMIT ? limit : number;
#endif
}
"""

_TO_WIDE_UNSIGNED = """\
AS_FN $T as_cvt_${S}_$FS($F x) {
#ifdef __CUDACC__
    return $CUDA;
#else
    const $T above = x >= $LIMIT;
    const $F inside = as_from_bits_$FS(as_bits_$FS(x) & ($ZERO - ((x > 0) & (x < $LIMIT))));
    return ($T)inside | (0 - above);
#endif
}
"""


def per_type_functions() -> Iterator[str]:
    """Yield the functions of all types, one or more paragraphs at a time."""
    for dtype in ALL:
        if dtype.is_int:
            yield from _integer_functions(dtype)
        elif dtype.is_float:
            yield from _float_functions(dtype)
    for source in (float32, float64):
        yield Template(_TO_BOOL).substitute(FS=source.short, F=C_NAMES[source.name])
        for dtype in ALL:
            if dtype.is_int:
                yield _conversion(dtype, source)


def _integer_functions(dtype: DType) -> Iterator[str]:
    wide = dtype.bits == 64
    names = {
        "S": dtype.short,
        "T": C_NAMES[dtype.name],
        "N": C_NAMES[f"uint{dtype.bits}"],
        "U": "unsigned long long" if wide else "unsigned int",
        "ZERO": "0ull" if wide else "0u",
        "MASK": dtype.bits - 1,
    }
    yield Template(_SIGNED if dtype.kind == "i" else _UNSIGNED).substitute(names)
    yield Template(_INTEGER).substitute(names)
    yield Template(_INT_MIN_MAX).substitute(names)


def _float_functions(dtype: DType) -> Iterator[str]:
    letter = "" if dtype == float64 else "f"
    names = {"S": dtype.short, "T": C_NAMES[dtype.name], "LETTER": letter, "N": C_NAMES[f"uint{dtype.bits}"]}
    yield Template(_FLOAT).substitute(names)
    if dtype not in (float32, float64):
        return
    yield Template(_FLOAT_DIVISION).substitute(names)
    for template, functions in ((_UNARY, UNARY_FUNCTIONS), (_BINARY, BINARY_FUNCTIONS)):
        for name in functions:
            if name == "exp":
                yield Template(_EXPONENTIAL).substitute(names | _EXTREMES[dtype.short])
            else:
                yield Template(template).substitute(names, NAME=name, LIBRARY=_LIBRARY_NAMES.get(name, name))


def _conversion(dtype: DType, source: DType) -> str:
    """Return the function that converts a floating-point type: toward zero, saturating, NaN to 0."""
    signed = dtype.kind == "i"
    names = {
        "S": dtype.short,
        "T": C_NAMES[dtype.name],
        "FS": source.short,
        "F": C_NAMES[source.name],
        "ZERO": "0ull" if source.bits == 64 else "0u",
    }
    if dtype.bits < 32:
        template = _TO_NARROW_SIGNED if signed else _TO_NARROW_UNSIGNED
        return Template(template).substitute(names, LEAST=dtype.min_value, MOST=dtype.max_value)
    intrinsic = f"__{C_NAMES[source.name]}2{_CUDA_CONVERSIONS[dtype.name]}_rz(x)"
    # PTX converts NaN to 0 only from float32 to 32 bits.
    nan_gives_zero = source == float32 and dtype.bits == 32
    return Template(_TO_WIDE_SIGNED if signed else _TO_WIDE_UNSIGNED).substitute(
        names,
        LETTER="" if source == float64 else "f",
        B=C_NAMES[f"int{source.bits}"],
        LAST=source.bits - 1,
        CUDA=intrinsic if nan_gives_zero else f"x == x ? {intrinsic} : 0",
        LIMIT=f"0x1p{dtype.bits - signed}" + ("" if source == float64 else "f"),
        MOST=f"{dtype.max_value}" + ("LL" if dtype.bits == 64 else ""),
    )
