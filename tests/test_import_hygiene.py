"""Importing the library is cheap, and its sub-packages depend on one another in one direction only."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "autosched"

HEAVY = {"torch", "cupy", "hydra", "rich", "matplotlib", "pyarrow", "ray", "scipy", "PIL"}

# A pipeline's way from the language to the applications: each sub-package imports from itself and those before it.
ORDER = ("lang", "analysis", "schedule", "lower", "codegen", "runtime", "measure", "apps")
# Modules beside them that import none of them, so that all may import them.
LEAVES = {"_version", "atomic_files", "deprecation", "errors", "settings", "host", "target"}
# The interpreter is the oracle: it imports the language only, and the code it checks does not import it.
MAY_USE_REFERENCE = {"runtime", "measure", "apps"}


def allowed_imports(unit: str) -> set[str]:
    """Return the parts of autosched that a sub-package or a module beside them may import."""
    if unit in LEAVES:
        return LEAVES
    if unit == "reference":
        return LEAVES | {"reference", "lang", "analysis"}
    allowed = LEAVES | set(ORDER[: ORDER.index(unit) + 1])
    return allowed | {"reference"} if unit in MAY_USE_REFERENCE else allowed


def imported_parts(source: str, *, type_only: bool) -> Iterator[tuple[int, str]]:
    """Yield (line, part) for each import of `autosched.<part>...`, in functions too.

    A relative import is yielded as ".", and imports under `if TYPE_CHECKING` are left out unless `type_only`.
    """
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) if not type_only:
                pending.extend(node.orelse)
                continue
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(level=level) if level > 0:
                modules = ["autosched.."]
            case ast.ImportFrom(module="autosched", names=names):
                modules = [f"autosched.{alias.name}" for alias in names]
            case ast.ImportFrom(module=str(module)):
                modules = [module]
            case _:
                modules = []
        for module in modules:
            top, _, rest = module.partition(".")
            if top == "autosched":
                yield node.lineno, rest.partition(".")[0] or "."  # type: ignore[attr-defined]
        pending.extend(ast.iter_child_nodes(node))


def violations(unit: str, source: str) -> list[tuple[int, str]]:
    """Return (line, part) for each import that a unit's source must not make."""
    allowed = allowed_imports(unit)
    # The package itself (its version, say) may be named anywhere; `from autosched import __version__` names it.
    return [
        (line, part)
        for line, part in imported_parts(source, type_only=unit in ORDER)
        if part not in allowed and part != "__version__"
    ]


def _source_files() -> list[tuple[str, Path]]:
    found = [(unit, path) for unit in (*ORDER, "reference") for path in sorted((PACKAGE / unit).rglob("*.py"))]
    beside = [(unit, PACKAGE / f"{unit}.py") for unit in sorted(LEAVES)]
    return found + [(unit, path) for unit, path in beside if path.exists()]


@pytest.mark.parametrize(
    ("unit", "path"), [pytest.param(unit, path, id=str(path.relative_to(ROOT))) for unit, path in _source_files()]
)
def test_imports_follow_the_order(unit: str, path: Path) -> None:
    assert violations(unit, path.read_text()) == []


@pytest.mark.parametrize(
    ("unit", "source", "expected"),
    [
        ("lang", "from autosched.analysis.stage_graph import StageGraph", [(1, "analysis")]),
        ("lang", "import autosched.runtime.compile.cache", [(1, "runtime")]),
        ("lower", "def f():\n    from autosched import codegen\n", [(2, "codegen")]),
        ("schedule", "if TYPE_CHECKING:\n    from autosched.lower import ir\n", [(2, "lower")]),
        ("codegen", "from .printer import text", [(1, ".")]),
        ("runtime", "from autosched.search import beam", [(1, "search")]),
        ("codegen", "from autosched.reference import run", [(1, "reference")]),
        ("reference", "from autosched.lower.ir import For", [(1, "lower")]),
        ("errors", "from autosched.lang.source_location import X", [(1, "lang")]),
        ("runtime", "from autosched.reference import run\nfrom autosched.lang import expr\nimport numpy\n", []),
        ("errors", "if TYPE_CHECKING:\n    from autosched.lang.source_location import X\n", []),
        ("lang", "from autosched import __version__\n", []),
    ],
)
def test_the_check_itself(unit: str, source: str, expected: list[tuple[int, str]]) -> None:
    assert violations(unit, source) == expected


def test_every_part_is_checked() -> None:
    """A new sub-package must take its place in the order."""
    # The last five, like the API above them all, may import everything.
    known = {*ORDER, "reference", "commands", "report", "export", "iteration", "torch"}
    assert {path.parent.name for path in PACKAGE.glob("*/*.py")} <= known


def modules() -> dict[str, Path]:
    """Return the file of each module of the product by its dotted name."""
    found = {}
    beside = ("featurize", "search", "model", "random_pipelines")
    for base, prefix in [(PACKAGE, "autosched"), *((ROOT / name, f"autosched.{name}") for name in beside)]:
        for path in base.rglob("*.py"):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join([prefix, *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    return found


def imported_modules(source: str, known: Collection[str]) -> Iterator[str]:
    """Yield the modules that a source imports, in functions and for type checkers too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                name = name if name in known else node.module
                if name in known:
                    yield name


def test_no_import_circles() -> None:
    """Not even among imports in functions, or for type checkers alone."""
    files = modules()
    graph = nx.DiGraph()
    for module, path in files.items():
        if path.name != "__init__.py":
            graph.add_edges_from(
                (module, other) for other in imported_modules(path.read_text(), files) if other != module
            )
    assert [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1] == []


LAZY = {
    "autosched": "the package is callable as `autosched.schedule`, which imports the API",
    "autosched.api": "the baseline takes neither search nor tuning",
    "autosched.scheduled_pipeline": "lowering, reports and export are imported by those who use them",
    "autosched.runtime.backends.factory": "one backend of three is used; CUDA's needs extras",
    "autosched.runtime.call.compiled": "timing and CUDA graphs are imported by those who use them",
    "autosched.runtime.benchmark": "timing on a GPU needs CuPy",
    "autosched.measure.backends.selection": "one backend of three is used; CUDA's needs CuPy",
    "autosched.search.strategies.polymage.stage_resources": "one strategy needs code generation and simulation",
    "autosched.search.tune.cost_models": "the learned model imports PyTorch",
    "autosched.search.tune.one_shot": "measuring is imported where schedules are measured",
    "autosched.torch.region": "a region in the cache takes neither translation, search nor code generation",
    "autosched.model.train.train_run": "plots and curves need extras",
}
"""Modules that import parts of the package inside of functions, at most twelve, with the reason."""


def test_imports_within_functions_have_a_reason() -> None:
    lazy = set()
    for module, path in modules().items():
        functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
        imports = [n for f in functions for n in ast.walk(f) if isinstance(n, ast.ImportFrom)]
        if any((n.module or "").partition(".")[0] == "autosched" for n in imports):
            lazy.add(module)
    assert lazy == set(LAZY)
    assert len(LAZY) <= 12


def test_import_pulls_in_nothing_heavy() -> None:
    code = "import json, sys; import autosched; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "autosched" in loaded
    assert loaded & HEAVY == set()
