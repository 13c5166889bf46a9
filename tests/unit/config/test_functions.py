"""The source of Python functions, as it is read together with the file."""

from __future__ import annotations

import py_compile
import zipfile
from pathlib import Path

import pytest

from isthmus.config.functions import read_function
from isthmus.errors import ConfigError
from isthmus.model.links.transform import Transform
from isthmus.model.recordfunction import FunctionSource, RecordFunction


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


def test_an_id_from_before_sources_counted_may_be_any_source() -> None:
    """Nobody knows that the function was another one; what the file says of it is compared all the same."""
    known = Transform(python=RecordFunction("rules", "clean", source=FunctionSource("now", ())))
    written = Transform(python=RecordFunction("rules", "clean")).digest
    assert known.is_generation(written)
    assert not known.is_generation(f"{written}-former")
    assert not known.is_generation(Transform(python=RecordFunction("rules", "other")).digest)


@pytest.mark.parametrize("text", ["def clean(rows:\n", "A = " + "-" * 200_000 + "1", "A = " + "(" * 500 + ")" * 500])
def test_a_module_that_cannot_be_parsed_is_refused(tmp_path: Path, text: str) -> None:
    """It may be half written: whoever has read it before goes on with that. So is one that is imported."""
    (tmp_path / "rules.py").write_text("import words\n")
    (tmp_path / "words.py").write_text(text)
    with pytest.raises(ConfigError, match="words") as raised:
        read_function("rules:clean", str(tmp_path))
    assert "Correct it" in raised.value.hint


def test_modules_that_are_not_found_are_known(tmp_path: Path) -> None:
    """Of those that import statements name; libraries are found."""
    (tmp_path / "rules.py").write_text("import json, gone\nfrom words import A\n")
    (tmp_path / "words.py").write_text("A = 1\n")
    source = read_function("rules:clean", str(tmp_path)).source
    assert source is not None
    assert source.missing == {"gone", "words.A"}


def test_a_package_without_source_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was compiled or zipped is imported as it is there; one without a file of its own is read."""
    text = "def clean(rows):\n    return rows\n"
    compiled, spaces = tmp_path / "compiled", tmp_path / "spaces"
    for folder in (compiled, spaces):
        folder.mkdir()
        (folder / "rules.py").write_text(text)
    (tmp_path / "init.py").write_text("A = 1\n")
    py_compile.compile(str(tmp_path / "init.py"), cfile=str(compiled / "__init__.pyc"))
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as packed:
        packed.writestr("zipped/__init__.py", "A = 1\n")
        packed.writestr("zipped/rules.py", text)
    monkeypatch.syspath_prepend(str(tmp_path / "zipped.zip"))
    (tmp_path / "uses.py").write_text("import compiled\n")

    assert not names(read_function("compiled.rules:clean", str(tmp_path)))
    assert not names(read_function("zipped.rules:clean", str(tmp_path)))
    assert names(read_function("uses:clean", str(tmp_path))) == {"uses"}
    assert names(read_function("spaces.rules:clean", str(tmp_path))) == {"spaces", "spaces.rules"}


def test_too_much_source_is_refused(tmp_path: Path) -> None:
    """It goes to every task."""
    (tmp_path / "rules.py").write_text("A = '''" + "x" * (5 << 20) + "'''")
    with pytest.raises(ConfigError, match="5 MiB of source") as raised:
        read_function("rules:clean", str(tmp_path))
    assert "package of its own" in raised.value.hint
