"""What must be true of the repository itself, whoever edits it."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

import fitter
from tests.suites import ROOT, SUITES

MAX_LINES = 450


def tracked() -> list[Path]:
    """Tracked files, and new ones that git does not ignore: what would be pushed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return [ROOT / name for name in sorted(set(listed.stdout.split("\0"))) if name and (ROOT / name).is_file()]


def texts() -> list[tuple[Path, str]]:
    found = []
    for path in tracked():
        try:
            found.append((path.relative_to(ROOT), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


def python(folder: str) -> list[tuple[Path, str]]:
    return [(path, text) for path, text in texts() if path.suffix == ".py" and path.parts[0] == folder]


def test_the_file_list_is_not_empty() -> None:
    names = {str(path) for path, _ in texts()}
    assert {"fitter/errors.py", "pyproject.toml", "Makefile", "tests/test_repo.py"} <= names


def switches_on(source: str) -> list[int]:
    """Lines that set something called ``enabled`` to anything but the constant False or a copy of what was read."""
    lines = []

    def off(node: ast.expr) -> bool:
        copied = re.fullmatch(
            r"""\w+(\[['"]\w+['"]\])*(\[['"]enabled['"]\]|\.get\(['"]enabled['"]\))""", ast.unparse(node)
        )
        return (isinstance(node, ast.Constant) and node.value is False) or copied is not None

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "enabled" and not off(value):
                    lines.append(value.lineno)
        elif isinstance(node, ast.keyword) and node.arg == "enabled" and not off(node.value):
            lines.append(node.value.lineno)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                index = target.slice if isinstance(target, ast.Subscript) else None
                named = target.attr if isinstance(target, ast.Attribute) else None
                constant = index.value if isinstance(index, ast.Constant) else None
                if "enabled" in (named, constant) and not off(node.value):
                    lines.append(node.lineno)
    return lines


def test_pu1_no_code_writes_an_enabled_evaluator() -> None:
    # tracing_context(enabled=False) of SC-3 is the constant False, too.
    faults = [f"{path}:{line}" for path, text in python("fitter") for line in switches_on(text)]
    assert not faults, faults


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("x = {'enabled': True}", 1),
        ("x = {'enabled': flag}", 1),
        ("f(enabled=1)", 1),
        ("x['enabled'] = True", 1),
        ("x.enabled = yes", 1),
        ("x = {'enabled': not y.get('enabled')}", 1),
        ("x = {'enabled': y.get('enabled', True)}", 1),
        ("x = {'enabled': y['target'].get('enabled')}", 0),
        ("x = {'enabled': False}; x['enabled'] = False; f(enabled=False); y = x['enabled']", 0),
    ],
)
def test_pu1_the_search_for_enabling_code_can_fail(source: str, count: int) -> None:
    assert len(switches_on(source)) == count


def test_no_file_names_a_package_registry() -> None:
    hosts = re.compile(
        "|".join(["py" + r"pi\.org", "pythonhosted" + r"\.org", "registry\\." + "npm", r"conda\.ana" + "conda"])
    )
    faults = [str(path) for path, text in texts() if hosts.search(text)]
    assert not faults, faults


def test_nothing_is_left_open() -> None:
    words = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error"]) + r")\b")
    skips = re.compile(r"pytest\.mark\.(" + "skip|" + r"xfail)\(")
    faults = []
    for path, text in [*python("fitter"), *python("tests")]:
        # tests/conftest.py skips the suites that a machine lacks: the one place.
        pattern = words if str(path) == "tests/conftest.py" else re.compile(f"{words.pattern}|{skips.pattern}")
        faults += [f"{path}:{number}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]
    assert not faults, faults


def test_no_file_of_the_code_outgrows_its_room() -> None:
    long = {str(path): text.count("\n") for path, text in python("fitter") if text.count("\n") > MAX_LINES}
    assert not long, long


def test_test_files_have_unique_names() -> None:
    seen: dict[str, str] = {}
    for path, _ in python("tests"):
        if path.name.startswith("test_"):
            assert path.name not in seen, f"{path} and {seen[path.name]}"
            seen[path.name] = str(path)


Function = ast.FunctionDef | ast.AsyncFunctionDef
CHECKS = ("assert", "check", "expect", "fail", "prove", "raises", "warns")


def silent_tests(source: str) -> list[str]:
    """Tests that hold no assert, no pytest.raises, and call no helper that does (of this file, or one named so)."""
    functions = {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)}

    def called(function: ast.AST) -> set[str]:
        calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
        return {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}

    loud = {
        name
        for name, function in functions.items()
        if any(isinstance(node, ast.Assert) for node in ast.walk(function))
        or any(call.lstrip("_").startswith(CHECKS) for call in called(function))
    }
    while more := {name for name, function in functions.items() if name not in loud and called(function) & loud}:
        loud |= more
    return [
        f"{node.lineno} {name}" for name, node in functions.items() if name.startswith("test_") and name not in loud
    ]


def test_every_test_asserts_something() -> None:
    faults = [
        f"{path}:{test}"
        for path, text in python("tests")
        if path.name.startswith("test_")
        for test in silent_tests(text)
    ]
    assert not faults, faults


def test_the_search_for_silent_tests_can_fail() -> None:
    helper = "def refused():\n    with pytest.raises(E): f()\n"
    assert silent_tests("def test_x():\n    f()\n") == ["1 test_x"]
    assert silent_tests(f"{helper}def test_x():\n    refused()\n") == []
    assert silent_tests("def test_x():\n    assert f()\n") == []


def test_every_suite_has_tests() -> None:
    marks = "\n".join(text for path, text in python("tests") if path.name.startswith("test_"))
    for name in SUITES:
        assert f'mark.suite("{name}")' in marks or f"mark.{name}\n" in marks, f"suite {name} has no test"


@pytest.mark.parametrize(
    "path",
    [
        "workspaces/fit-1/runs/r/report.md",
        "runs/r1/private/rows.jsonl",
        "holdouts/s1/private/rows.jsonl",
        "runs/calls.sqlite",
        "runs/calls.sqlite-wal",
        "runs/r1/state.sqlite",
        "runs/r1.lock",
        ".venv/bin/python",
    ],
)
def test_sc4_git_ignores_what_may_hold_customer_text(path: str) -> None:
    assert subprocess.run(["git", "check-ignore", "--quiet", "--no-index", path], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("path", ["runs/r1/config.json", "holdouts/s1/seal.json", "publish/local/n/r1/receipt.json"])
def test_sc4_git_keeps_the_audit_trail(path: str) -> None:
    assert subprocess.run(["git", "check-ignore", "--quiet", "--no-index", path], cwd=ROOT).returncode == 1


def test_project_facts_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "judge-fitter"
    assert project["version"] == fitter.__version__
    assert project["scripts"] == {"fitter": "fitter.cli.main:main"}
    assert project["requires-python"] == ">=3.11"


def _make(*arguments: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=ROOT, env=clean, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_make_fit_is_the_whole_main_job() -> None:
    words = shlex.split(_make("--silent", "show-fit"))
    assert words[:2] == ["fit", "practice"]
    # LO-1: every field that must be asked is answered on the line, none is a default.
    from fitter.settings import MUST_ASK

    assert {f"--{name.replace('_', '-')}" for name in MUST_ASK} <= set(words)
    assert words[-1] == "--yes"


def test_readme_shows_the_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = set(re.findall(r"^\s*make ([a-z-]+)", readme, re.MULTILINE))
    assert {"fit", "test"} <= shown <= targets
    typed = next(line for line in readme.replace("\\\n", " ").splitlines() if " fit practice " in line)
    assert shlex.split(typed)[-len(shlex.split(_make("--silent", "show-fit"))) :] == shlex.split(
        _make("--silent", "show-fit")
    )


def test_links_in_the_documents_lead_somewhere() -> None:
    faults = []
    for path, text in texts():
        if path.suffix != ".md" or path.parts[0] not in ("README.md", "docs"):
            continue
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in link and not (ROOT / path).parent.joinpath(link).exists():
                faults.append(f"{path}: {link}")
    assert not faults, faults


def test_ci_script_is_sound() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert "FITTER_REQUIRE=all make test" in text
