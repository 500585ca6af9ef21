"""Names of modules and classes follow CONTRIBUTING.md, and names in documents and docstrings exist."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BESIDE = ("featurize", "search", "model", "random_pipelines")
"""Top-level directories that are installed as sub-packages of autosched."""
SCRIPTS = ROOT / "scripts"

ADJECTIVES = {
    "batched", "compile_only", "compiled", "interleaved", "learned", "measured", "pinned", "ragged", "scheduled",
    "simulated",
}  # fmt: skip
"""Adjectives of the field that a module may be named by."""
NOUNS_IN_ED = {"seed", "speed", "need", "embed"}
PREPOSITIONS = {
    "about", "above", "across", "after", "against", "ahead", "along", "among", "apart", "around", "at", "before",
    "behind", "below", "beside", "besides", "between", "beyond", "by", "down", "for", "from", "in", "into", "off", "on",
    "onto", "out", "over", "past", "since", "through", "together", "towards", "under", "until", "up", "upon", "with",
    "within", "without",
}  # fmt: skip
PARTICIPLES = {"held", "left_out", "known", "written", "told", "kept", "done", "drawn", "made", "shown", "taken"}
ADVERBS = {"again", "ahead", "alike", "alone", "here", "there", "together"}
NOUNS_IN_LY = {"assembly", "disassembly", "anomaly", "family", "reply", "supply"}

COMMON_STEMS = {"beam", "protocol", "results", "settings", "state", "tilings"}
"""General nouns that several modules of one sub-package may be named by."""


def sources() -> Iterator[tuple[str, Path]]:
    """Yield each module of the product with its dotted name."""
    for base, prefix in [(ROOT / "autosched", "autosched"), *((ROOT / d, f"autosched.{d}") for d in BESIDE)]:
        for path in sorted(base.rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            yield ".".join([prefix, *(parts[:-1] if parts[-1] == "__init__" else parts)]), path


def name_problem(stem: str) -> str | None:
    """Return why a module must not have a name; None if it may."""
    words = stem.split("_")
    if stem in ADJECTIVES:
        return None
    if stem in ADVERBS or (words[-1].endswith("ly") and words[-1] not in NOUNS_IN_LY):
        return "an adverb"
    if stem in PARTICIPLES or (words[-1].endswith("ed") and words[-1] not in NOUNS_IN_ED):
        return "a participle"
    if words[0] in PREPOSITIONS:
        return "a preposition"
    return None


@pytest.mark.parametrize(
    ("stem", "problem"),
    [
        ("across", "a preposition"), ("in_steps", "a preposition"), ("together", "an adverb"), ("held", "a participle"),
        ("filled", "a participle"), ("left_out", "a participle"), ("greedily", "an adverb"), ("pinned", None),
        ("edge_padding", None), ("supply", None), ("to_text", None), ("speed", None),
    ],
)  # fmt: skip
def test_the_rule_itself(stem: str, problem: str | None) -> None:
    assert name_problem(stem) == problem


def test_modules_are_named_by_nouns_and_verbs() -> None:
    paths = [path for _, path in sources()] + sorted(SCRIPTS.rglob("*.py"))
    wrong = {str(p.relative_to(ROOT)): problem for p in paths if (problem := name_problem(p.stem))}
    assert not wrong


def test_public_classes_have_unique_names() -> None:
    places = defaultdict(list)
    for module, path in sources():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_stems_are_unique_within_a_sub_package() -> None:
    places = defaultdict(list)
    for module, path in sources():
        if path.stem not in {"__init__", *COMMON_STEMS}:
            places[module.split(".")[1], path.stem].append(module)
    assert {key: modules for key, modules in places.items() if len(modules) > 1} == {}


def test_sub_packages_say_where_to_begin() -> None:
    """Each folder of a large package has a paragraph on its purpose."""
    short = []
    for module, path in sources():
        if path.name == "__init__.py" and len(module.split(".")) > 2:
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            if len(text) < 60:
                short.append(module)
    assert not short


DOTTED = re.compile(r"\bautosched(?:\.[A-Za-z_]\w*)+")
ELSEWHERE = {"renamed_modules.py", "test_deprecation.py", "test_import_hygiene.py", "test_names.py"}


def dotted_names() -> Iterator[tuple[str, Path]]:
    """Yield each dotted name of the package in code, documents and configurations, with its file."""
    texts = [path for _, path in sources()]
    for directory, ending in (("scripts", "py"), ("tests", "py"), ("docs", "md"), ("configs", "yaml")):
        texts += sorted((ROOT / directory).rglob(f"*.{ending}"))
    for path in [*texts, *ROOT.glob("*.md")]:
        if path.name not in ELSEWHERE:
            for match in DOTTED.finditer(path.read_text(encoding="utf-8")):
                yield match[0], path


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of the deepest module on its way."""
    parts = name.split(".")
    k = 1
    while k < len(parts):
        base = ROOT if parts[1] in (*BESIDE, "configs") else ROOT / "autosched"
        path = base.joinpath(*parts[1 : k + 1])
        if not (path.is_dir() or path.with_suffix(".py").exists()):
            break
        k += 1
    if k == len(parts):
        return True
    try:
        module = importlib.import_module(".".join(parts[:k]))
    except ImportError:  # an extra that is not installed
        return True
    try:
        return hasattr(module, parts[k])
    except DeprecationWarning:  # an old name, which only `autosched.deprecation` may mention
        return False


def test_dotted_names_exist() -> None:
    wrong = {(name, str(path.relative_to(ROOT))) for name, path in dotted_names() if not exists(name)}
    assert wrong == {("autosched.shedule", "tests/test_api.py")}  # misspelt on purpose


LONGEST_SCRIPT = 80


def test_scripts_are_thin_and_imported_by_name() -> None:
    """Logic lies in importable packages beside the scripts or in the product."""
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in SCRIPTS.glob("*.py")}
    assert {name: n for name, n in lengths.items() if n >= LONGEST_SCRIPT} == {}
    by_path = "spec_from_file_" + "location"
    assert [p.name for p in (ROOT / "tests").rglob("*.py") if by_path in p.read_text(encoding="utf-8")] == []
