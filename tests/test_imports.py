"""The building's statics: imports point down, no circles, the pure rooms stay pure, ``fitter --help`` stays instant."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.suites import ROOT

# docs/architecture.md, from the ground up. A module may import from its own level and below.
LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"fitter", "errors", "jsonio", "textsafe", "labels", "records"}),
    # The Protocols stand below the rooms that implement them: that is what makes them Protocols.
    frozenset({"scoring", "workspace", "practice", "PROTOCOLS"}),
    frozenset({"settings", "runstore"}),
    frozenset({"calls"}),
    frozenset({"judge", "evidence", "queues", "clients", "lexicon", "advisors", "grouping", "splitting", "holdout"}),
    frozenset({"loop", "report", "publishing"}),
    frozenset({"fitting", "teams", "wiring", "platforms", "published", "deployed", "overview", "evaluation"}),
    frozenset({"cli"}),
)
PROTOCOLS = frozenset(
    {
        "fitter.queues.source",
        "fitter.clients.base",
        "fitter.evidence.map",
        "fitter.evidence.targets.base",
        "fitter.publishing.publisher",
        "fitter.loop.strategies",
    }
)

PURE_STDLIB = frozenset(
    {
        "__future__",
        "bisect",
        "collections",
        "dataclasses",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "math",
        "operator",
        "re",
        "statistics",
        "string",
        "types",
        "typing",
    }
)
PURE_THIRD = frozenset({"numpy", "scipy", "pydantic"})
PURE_FITTER = frozenset({"errors", "jsonio", "textsafe", "labels", "records", "scoring"})
IMPURE_NAMES = frozenset({"open", "print", "input", "eval", "exec", "compile", "__import__", "globals"})
# numpy's own ways to a file or to hidden random state.
IMPURE_NUMPY = frozenset(
    {
        "fromfile",
        "genfromtxt",
        "load",
        "loadtxt",
        "memmap",
        "save",
        "savetxt",
        "savez",
        "savez_compressed",
        "seed",
        "rand",
        "randn",
        "randint",
        "random",
        "choice",
        "shuffle",
        "permutation",
        "random_sample",
        "standard_normal",
    }
)

HEAVY = ("langgraph", "langchain_core", "scipy", "openai", "anthropic", "mlflow", "mcp", "sklearn", "statsmodels")
# Where a heavy library may be imported at the top: such a module is itself imported inside the function that needs it.
HEAVY_HOMES = {"scipy": "fitter.scoring", "numpy": "fitter.scoring", "langgraph": "fitter.loop.graph"}


@dataclass(frozen=True)
class Import:
    """One import statement.

    Attributes:
        importer: module that holds it.
        target: the module imported; fitter's own are resolved to the module that exists.
        top: at import time, not inside a function.
        line: where.
    """

    importer: str
    target: str
    top: bool
    line: int


def module_files() -> dict[str, Path]:
    """Every module of fitter by dotted name."""
    found = {}
    for path in sorted((ROOT / "fitter").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> tuple[Import, ...]:
    """Every import of fitter, those inside functions too."""
    files = module_files()
    return tuple(
        found
        for name, path in files.items()
        for found in imports_of(name, path.read_text(encoding="utf-8"), frozenset(files), path.name == "__init__.py")
    )


def imports_of(name: str, source: str, modules: frozenset[str], package: bool = False) -> Iterator[Import]:
    """Imports of one module's source."""
    tree = ast.parse(source)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        top = id(node) not in inside
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, alias.name, top, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                kept = parts[: len(parts) - node.level + (1 if package else 0)]
                base = ".".join([*kept, base] if base else kept)
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield Import(name, whole if whole in modules else base, top, node.lineno)


def level(module: str) -> int:
    """The level of a fitter module; fails for a room that has no place yet."""
    name = "PROTOCOLS" if module in PROTOCOLS else room(module)
    for number, rooms in enumerate(LEVELS):
        if name in rooms:
            return number
    pytest.fail(f"{module} has no level: give its room a place in LEVELS (and in docs/architecture.md)")


def within_fitter() -> list[Import]:
    return [found for found in imports() if found.target == "fitter" or found.target.startswith("fitter.")]


def show(faults: list[Import]) -> str:
    return "\n".join(f"{f.importer}:{f.line} imports {f.target}" for f in faults)


def test_imports_point_down() -> None:
    faults = [found for found in within_fitter() if level(found.target) > level(found.importer)]
    assert not faults, show(faults)
    assert len(within_fitter()) > 50


def circle(edges: dict[str, set[str]]) -> list[str]:
    """One circle as a list of modules, or an empty list."""
    done: set[str] = set()
    for start in sorted(edges):
        path: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(edges.get(start, ()))))]
        if start in done:
            continue
        path.append(start)
        while stack:
            node, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                path.pop()
                done.add(node)
            elif following in path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                stack.append((following, iter(sorted(edges.get(following, ())))))
    return []


def test_no_circles() -> None:
    edges: dict[str, set[str]] = {}
    for found in within_fitter():
        if found.target != found.importer:
            edges.setdefault(found.importer, set()).add(found.target)
    found_circle = circle(edges)
    assert not found_circle, " → ".join(found_circle)


def test_the_circle_finder_finds_circles() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}}) == []


def pure_modules() -> dict[str, Path]:
    return {
        name: path
        for name, path in module_files().items()
        if name.startswith("fitter.scoring") or name == "fitter.loop.decide"
    }


def impurities(name: str, source: str) -> list[str]:
    """What a pure module may not do: leave the allowed imports, or reach a file, a clock or hidden random state."""
    faults = []
    for found in imports_of(name, source, frozenset(module_files())):
        root, _, rest = found.target.partition(".")
        allowed = rest.split(".")[0] in PURE_FITTER if root == "fitter" else root in PURE_STDLIB | PURE_THIRD
        if not allowed:
            faults.append(f"{name}:{found.line} imports {found.target}")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_NAMES:
            faults.append(f"{name}:{node.lineno} calls {node.func.id}()")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)
            if called.startswith(("np.", "numpy.")) and called.count("(") == 0 and node.func.attr in IMPURE_NUMPY:
                faults.append(f"{name}:{node.lineno} calls {called}()")
            if node.func.attr in ("default_rng", "PCG64", "Philox", "SeedSequence") and not node.args + node.keywords:
                faults.append(f"{name}:{node.lineno} calls {called}() without a seed")
    return faults


def test_scoring_and_keep_rule_know_no_files_network_or_clock() -> None:
    faults = [
        fault for name, path in pure_modules().items() for fault in impurities(name, path.read_text(encoding="utf-8"))
    ]
    assert not faults, "\n".join(faults)
    assert "fitter.scoring.metrics" in pure_modules()


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from pathlib import Path",
        "import time",
        "from datetime import datetime",
        "import httpx",
        "import random",
        "from fitter.workspace import Workspace",
        "from fitter import settings",
        "from fitter.loop.state import FitState",
        "def f():\n    import socket",
        "open('x')",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.shuffle([])",
        "import numpy as np\nnp.load('x')",
    ],
)
def test_the_purity_check_can_fail(line: str) -> None:
    assert len(impurities("fitter.scoring.x", line)) == 1


def test_the_purity_check_lets_pure_code_pass() -> None:
    source = "import math\nimport numpy as np\nfrom fitter.labels import text\nnp.random.default_rng(7).integers(3)\n"
    assert impurities("fitter.scoring.x", source) == []


# What stands behind the Protocols. The loop and the judge are handed these; only the composition root names them.
VENDORS = ("openai", "anthropic", "azure", "local", "replay", "datadog", "mlflow")


def is_vendor(module: str) -> bool:
    parts = module.split(".")
    if parts[:2] == ["fitter", "lexicon"]:
        return True
    seat = {("clients",), ("queues",), ("publishing",), ("evidence", "targets")}
    return tuple(parts[1:-1]) in seat and parts[-1].split("_")[0] in VENDORS


def room(module: str) -> str:
    return module.removeprefix("fitter.").split(".")[0]


def test_nothing_below_the_composition_root_names_another_rooms_vendor() -> None:
    # A room's registry (open_source, open_client ...) maps specs to vendors: that is its business. The report may say
    # what only one vendor knows (the lexicon's unread criteria).
    top = LEVELS[-2] | LEVELS[-1] | {"report"}
    faults = [
        found
        for found in within_fitter()
        if is_vendor(found.target)
        and not is_vendor(found.importer)
        and room(found.importer) not in {room(found.target), *top}
        and not found.importer.endswith(".registry")
    ]
    assert not faults, show(faults)
    assert is_vendor("fitter.publishing.local")
    assert is_vendor("fitter.lexicon.judge")
    assert not is_vendor("fitter.clients.base")


def test_heavy_libraries_are_imported_where_they_are_needed() -> None:
    faults = [
        found
        for found in imports()
        if found.top
        and (root := found.target.split(".")[0]) in {*HEAVY, "numpy"}
        and not found.importer.startswith(HEAVY_HOMES.get(root, "nowhere"))
    ]
    assert not faults, show(faults)


def test_no_pickle() -> None:
    banned = {"pickle", "shelve", "marshal", "dill", "joblib", "cloudpickle"}
    faults = [found for found in imports() if found.target.split(".")[0] in banned]
    assert not faults, show(faults)


def loaded_after(code: str, cwd: Path) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running ``code``."""
    script = f"{code}\nimport sys\nsys.stderr.write('\\nLOADED ' + ' '.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rpartition("LOADED ")[2].split())


RUN = """
import sys
sys.argv = ["fitter", {!r}]
from fitter.cli.main import main
try:
    assert not main()
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.mark.parametrize(
    "code",
    ["import fitter", "import fitter.cli.main", RUN.format("--help"), RUN.format("runs")],
    ids=["import fitter", "import the command", "fitter --help", "fitter runs"],
)
def test_help_and_runs_load_nothing_heavy(code: str, tmp_path: Path) -> None:
    loaded = loaded_after(code, tmp_path)
    assert "fitter" in loaded
    assert not loaded & {*HEAVY, "numpy", "httpx", "sqlite3"}
