"""The source of Python functions, as it is read together with the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.config.functions import read_function
from isthmus.errors import ConfigError
from isthmus.model.links.transform import Transform
from isthmus.model.recordfunction import RecordFunction


def names(function: RecordFunction) -> set[str]:
    return set() if function.source is None else {each.name for each in function.source.modules}


def digest(function: RecordFunction) -> str:
    return Transform(python=function).digest


def test_what_import_statements_name_is_read(tmp_path: Path) -> None:
    """Of the same folder and package, wherever they stand; no library is, and no module is run."""
    (tmp_path / "rules.py").write_text("import json, pyarrow, words\nraise SystemExit\n")
    (tmp_path / "words.py").write_text("def f():\n    from company.deep import more\n")
    (tmp_path / "other.py").write_text("")
    company = tmp_path / "company"
    (company / "deep").mkdir(parents=True)
    for name in ("__init__", "rest", "unused", "deep/__init__", "deep/more"):
        (company / f"{name}.py").write_text("")
    (company / "deep" / "more.py").write_text("from ..rest import x\nfrom . import more\n")

    found = read_function("rules:clean", str(tmp_path))

    assert names(found) == {"rules", "words", "company", "company.deep", "company.deep.more", "company.rest"}
    assert not names(read_function("nowhere:clean", str(tmp_path)))


def test_a_module_that_was_edited_is_another_generation(tmp_path: Path) -> None:
    """So is one whose imported module was; whoever does not find the source here knows what the file says alone."""
    rules, words = tmp_path / "rules.py", tmp_path / "words.py"
    rules.write_text("import words\n")
    words.write_text("A = 1\n")
    first = read_function("rules:clean", str(tmp_path))
    assert read_function("rules:clean", str(tmp_path)) == first
    words.write_text("A = 2\n")
    second = read_function("rules:clean", str(tmp_path))
    assert digest(first) != digest(second)
    assert (
        digest(first).partition("-")[0] == digest(second).partition("-")[0] == digest(RecordFunction("rules", "clean"))
    )
    assert not Transform(python=second).is_generation(digest(first))
    assert Transform(python=RecordFunction("rules", "clean")).is_generation(digest(first))


def test_too_much_source_is_refused(tmp_path: Path) -> None:
    """It goes to every task."""
    (tmp_path / "rules.py").write_text("A = '''" + "x" * (5 << 20) + "'''")
    with pytest.raises(ConfigError, match="5 MiB of source") as raised:
        read_function("rules:clean", str(tmp_path))
    assert "package of its own" in raised.value.hint
