"""C names of an exported pipeline: close to the user's, without conflicts in the programs that link it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from autosched.analysis.identifiers import RESERVED, Namer, avoid_reserved
from autosched.errors import InputError

_NEWER_KEYWORDS = "char8_t co_await co_return co_yield concept consteval constinit requires"
_TYPES = """
dim3 size_t ptrdiff_t intptr_t uintptr_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t
"""
_MACROS = "NULL EOF INFINITY NAN assert complex errno I isfinite isinf isnan offsetof signbit stderr stdin stdout"

ARGUMENT_WORDS = RESERVED | frozenset(f"{_NEWER_KEYWORDS} {_TYPES} {_MACROS} stream workspace".split())
"""Names that no argument of an exported function has."""

_HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype dirent fcntl memory new omp poll
pthread random search semaphore unistd utility vector version
"""
_CMAKE_TARGETS = "all clean help install package test"
_EXAMPLE = "argc argv array arrays check count done elements error example file files i lines transfer"
_FUNCTIONS = """
abort accept access acos acosh alarm asctime asin asinh atan atan2 atanh atexit atof atoi atol basename bcmp bcopy bind
brk bsearch bzero calloc cbrt chdir chmod chown chroot clearenv clock clone close closedir connect copysign cosh creat
ctime daemon difftime dirname div dup dup2 erf erfc execv exit exp2 expm1 fabs fclose fdim feof ferror ffs fflush
fgetc fgets fileno fma fmax fmin fopen fork fprintf fputc fputs fread free frexp fscanf fseek fsync ftell ftw fwrite
gamma getc getchar getenv getopt getpid gets gmtime hypot ilogb index ioctl isalnum isalpha isdigit islower isspace
isupper j0 j1 jn kill labs ldexp ldiv lgamma link listen llabs localtime log10 log1p log2 logb longjmp lseek malloc
memcmp memcpy memmove memset mkdir mktime mmap modf mount munmap nan nearbyint nextafter nice open opendir pause perror
pipe printf putc putchar putenv puts pwrite qsort raise rand random read readdir realloc recv remainder remove rename
rewind rindex rint rmdir sbrk scalb scanf select send setbuf setenv shutdown sinh sleep socket sprintf srand sscanf
stat strcat strchr strcmp strcpy strdup strlen strncmp strncpy strstr strtod strtok strtol symlink sync syscall sysinfo
system tanh tempnam tgamma times tmpfile tmpnam tolower toupper truncate ungetc unlink utime vfork wait write y0 y1 yn
"""
_TAKEN = ARGUMENT_WORDS | frozenset(f"{_HEADERS} {_CMAKE_TARGETS} {_EXAMPLE} {_FUNCTIONS}".split())
_OF_CUDA = re.compile(r"cuda|cu[A-Z]")
"""Prefixes of functions and files of the CUDA runtime and driver."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LONGEST = 100
_MAY_BE_MACRO = re.compile(r"\b(?:[A-Z][A-Z0-9_]+|[LMP]_\w+|stdin|stdout|stderr|errno)\b")


def function_name(pipeline: str, given: str | None = None) -> str:
    """Return the name of the exported function, which is also that of its files and its library.

    Args:
        pipeline: The pipeline's name, from which the default name is made.
        given: The user's name, or None.

    Raises:
        InputError: If the given name is no C identifier, or C, C++, CUDA or their libraries use it.
    """
    if given is None:
        plain = Namer()(avoid_reserved(pipeline))[:_LONGEST]
        return f"{plain}_pipeline" if _is_taken(plain) else plain
    if not _IDENTIFIER.fullmatch(given) or len(given) > _LONGEST:
        raise InputError(
            f"the exported function cannot be named {given!r}: give a letter followed by letters, digits and _, "
            f"{_LONGEST} characters at most"
        )
    if _is_taken(given):
        raise InputError(
            f"the exported function cannot be named {given!r}, which C, C++, CUDA or this export uses: "
            f"choose another name, such as {given.lower()}_pipeline"
        )
    return given


class ArgumentNames:
    """Generator of unique names for the arguments and kernels of an exported function.

    Args:
        taken: Names in use, besides those of the languages.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._namer = Namer(ARGUMENT_WORDS | set(taken))

    def __call__(self, name: str) -> str:
        """Return a new name, close to the given one; in lower case if a macro could have it."""
        plain = avoid_reserved(name)
        return self._namer(plain.lower() if _MAY_BE_MACRO.fullmatch(plain) else plain)


def _is_taken(name: str) -> bool:
    return name in _TAKEN or _OF_CUDA.match(name) is not None or name.startswith("as_")


_NO_CODE = re.compile(r'//[^\n]*|"[^"\n]*"')
_DEFINED = re.compile(r"^ *# *define (\w+)", re.MULTILINE)


def undefine(body: str, prelude: str) -> str:
    """Return lines that undefine macros of system headers whose names generated code uses.

    Compilers include headers before a CUDA file, and a user may call an array ``M_PI``. All words that could be macros
    are undefined, which is allowed for undefined names.

    Args:
        body: Generated code.
        prelude: Text that defines the macros of the generated code.
    """
    words = set(_MAY_BE_MACRO.findall(_NO_CODE.sub("", body))) - set(_DEFINED.findall(prelude))
    lines = "".join(f"#undef {word}\n" for word in sorted(words))
    return f"// Macros of system headers, should there be any of these names.\n{lines}\n" if lines else ""
