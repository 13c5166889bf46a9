"""The repository checks itself: sizes, names, docstrings and leftovers that no linter knows of."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from house.source import Function, Module, read_modules
from house.structure import find_circles

ROOT = Path(__file__).parents[2]
FUNCTION_LINES_MAX = 70
DECISION_LINES_MAX = 40
PROSE_WIDTH_MAX = 160
PLAN_LINES_MAX = 70
BANNED_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "base", "service"}
CHANGING = {"add", "append", "clear", "discard", "extend", "pop", "popleft", "remove", "setdefault", "update"}
# Spelled in two halves, so that this file does not find itself.
LEFTOVER = re.compile(r"\b(TO" "DO|FIX" "ME|XX" "X)\\b")


def is_test(module: Module, function: Function) -> bool:
    """Whether pytest collects this function."""
    return module.path.name.startswith("test_") and function.name.startswith("test_")


def test_a_module_is_named_after_a_thing() -> None:
    """A name such as "helpers" says nothing of what is in a module or a folder."""
    assert [
        module.path for module in read_modules() if BANNED_NAMES & {module.path.stem, *module.path.parent.parts}
    ] == []


def test_a_module_says_what_it_is_for() -> None:
    """Each module has a docstring; an empty `__init__.py` only makes a folder a package."""
    assert [module.path for module in read_modules() if module.text and not ast.get_docstring(module.tree)] == []


def test_nothing_is_left_undone() -> None:
    """What has still to be done stands in the plan, not in a comment."""
    assert [module.path for module in read_modules() if LEFTOVER.search(module.text)] == []


def test_a_function_fits_on_a_screen() -> None:
    """How long a module is says nothing: it is one subject. A function is read at once."""
    long = [
        f"{module.path}:{function.lineno} {function.name}"
        for module in read_modules()
        for function in module.functions
        if (function.end_lineno or function.lineno) - function.lineno >= FUNCTION_LINES_MAX
    ]
    assert long == []


def test_a_test_states_what_it_expects() -> None:
    """Each test has a docstring that says which behaviour it proves."""
    silent = [
        f"{module.path}:{function.lineno} {function.name}"
        for module in read_modules("tests")
        for function in module.functions
        if is_test(module, function) and not ast.get_docstring(function)
    ]
    assert silent == []


def test_what_tests_share_lies_in_testing() -> None:
    """No test is read to understand another one: what several need is a module that says what it is for."""
    shared = [
        f"{module.path} imports from {name}"
        for module in read_modules("tests", "testing", "soak", "bench", "demo")
        for name in module.imports
        if name.startswith("tests.") and ".test_" in name
    ]
    assert shared == []


def test_unit_tests_mirror_the_source() -> None:
    """Every folder of unit tests has its counterpart in the source."""
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}

    missing = [folder for folder in folders if not (ROOT / "src" / "isthmus" / folder).is_dir()]
    assert missing == []


def test_a_class_name_stands_for_one_thing() -> None:
    """No two public classes of the product share a name, and no module gives the name of one to another type: a reader
    who has met it knows it.
    """
    homes: dict[str, list[str]] = {}
    given: dict[str, list[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    given.setdefault(ast.unparse(target), []).append(str(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
    assert {name: paths for name, paths in given.items() if name in homes} == {}


def test_files_of_two_folders_know_each_other_in_one_direction() -> None:
    """No circle leads from one folder into another, not even through imports that only type checkers follow."""
    files = {module.name: module for module in read_modules("src") if module.path.name != "__init__.py"}
    graph = {name: set(module.imports) & files.keys() - {name} for name, module in files.items()}
    circles = find_circles(graph)
    assert [each for each in circles if len({files[name].path.parent for name in each}) > 1] == []


def test_a_predicate_only_answers() -> None:
    """What asks whether something is so (`is_`, `has_` and the like) changes nothing that is asked about."""
    asking = re.compile(r"_?(is|has|are|can|may|was|were|needs|must)_")
    acting = [
        f"{module.path}:{node.lineno} {function.name}"
        for module in read_modules("src")
        for function in module.functions
        if asking.match(function.name)
        for node in ast.walk(function)
        if isinstance(node, ast.expr) and _is_changing(node)
    ]
    assert acting == []


def _is_changing(node: ast.expr) -> bool:
    """Whether an attribute, or what one holds, becomes another here."""
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Subscript(value=ast.Attribute(), ctx=ast.Store() | ast.Del()):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Attribute(), attr=verb)):
            return verb in CHANGING
        case _:
            return False


def test_no_test_changes_a_number_of_the_product() -> None:
    """How long something waits and how much it holds are values that it is given, not constants that are patched."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("setattr", "object")
        and node.args
        and _is_number(node.args[-1])
    ]
    assert found == []


def _is_number(node: ast.expr) -> bool:
    values = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(isinstance(each, ast.Constant) and isinstance(each.value, int | float) for each in values)


def test_the_map_is_true() -> None:
    """ARCHITECTURE's map fits a page, names every folder of the package, and only files that are there."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = [
        row.split("|")
        for row in text.split("## Where to find it")[1].split("## ")[0].splitlines()
        if row.startswith("| `")
    ]
    package = ROOT / "src" / "isthmus"
    named = {package / folder for _, folders, *_ in rows for folder in re.findall(r"`([\w/]+)/`", folders)}
    assert len(rows) <= 40
    for folder in (path for path in package.iterdir() if (path / "__init__.py").exists()):
        assert folder in named, f"{folder.name} is not in the map"
    for _, folders, _, begin, _ in rows:
        homes = [package / each for each in re.findall(r"`([\w/]+)/`", folders)]
        for file in re.findall(r"`([\w.]+)`", begin):
            assert any((home / file).exists() for home in homes), f"{file} is not in {folders.strip()}"


def test_a_decision_fits_a_page() -> None:
    """Why something is as it is takes at most forty lines, or it is two decisions."""
    for path in (ROOT / "docs" / "decisions").glob("*.md"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= DECISION_LINES_MAX, path.name
        # A row of a table cannot be broken.
        assert [line for line in lines if len(line) > PROSE_WIDTH_MAX and not line.startswith("|")] == [], path.name


def test_the_plan_is_short() -> None:
    """What is done takes a clause; what it took to get there is in docs/decisions and docs/benchmarks.md."""
    plan = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## PLAN")[1].splitlines()
    assert len(plan) <= PLAN_LINES_MAX


def test_values_and_rules_ask_no_clock_and_toss_no_coin() -> None:
    """What the contract of imports cannot see: functions of modules that model may import."""
    asking = {"now", "utcnow", "today", "uuid1", "uuid4", "open"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}"
        for path in (ROOT / "src" / "isthmus" / "model").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in asking
    ]
    assert found == []


def test_newcomers_are_sent_to_what_is_there() -> None:
    """Each row of "where would I add" names one folder, and files that are there."""
    text = (ROOT / "docs" / "decisions" / "newcomers.md").read_text(encoding="utf-8")
    rows = [row.split("|") for row in text.splitlines() if row.startswith("|") and "`" in row]
    assert len(rows) >= 10
    for _, _, place, beside, _ in rows:
        (folder,) = re.findall(r"`([\w/]+)/`", place)
        homes = (ROOT / folder, ROOT / "src" / "isthmus", ROOT)
        for file in re.findall(r"`([\w/]+\.\w+)`", beside):
            assert any((home / file).is_file() for home in homes), f"{file} is not in {folder}"
