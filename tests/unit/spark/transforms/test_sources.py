"""Modules that are loaded from the source that was read."""

from __future__ import annotations

import pickle
import py_compile
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from isthmus.config.functions import read_function
from isthmus.engine.mapped.transformer import TransformFailed
from isthmus.spark.transforms.python import load_function

RULES = """
from __future__ import annotations
import dataclasses
from company.words import WORD

@dataclasses.dataclass
class Kept:
    word: str

def clean(rows):
    import company.more as more
    return Kept(WORD), more.both()
"""


def write(folder: Path, word: str) -> None:
    company = folder / "company"
    company.mkdir(exist_ok=True)
    (folder / "rules.py").write_text(RULES)
    (company / "__init__.py").write_text("")
    (company / "words.py").write_text(f"WORD = {word!r}\n")
    (company / "more.py").write_text(
        "from . import words\nimport company.words\n\n\ndef both():\n    return words.WORD + company.words.WORD\n"
    )


def called_plainly(function: Any) -> Any:
    return cast("Any", load_function(function))(None)


def called(function: Any) -> tuple[str, str]:
    kept, both = called_plainly(function)
    return kept.word, both


def test_a_function_is_what_was_read_of_it(tmp_path: Path) -> None:
    """With all that it imports, also while it runs, beside what was read later, and in another process."""
    write(tmp_path, "first")
    first = read_function("rules:clean", str(tmp_path))
    write(tmp_path, "second")
    second = read_function("rules:clean", str(tmp_path))
    assert called(second) == ("second", "secondsecond")
    assert called(pickle.loads(pickle.dumps(first))) == ("first", "firstfirst")  # noqa: S301
    assert called(second) == ("second", "secondsecond")


def test_a_module_that_no_statement_names_is_refused(tmp_path: Path) -> None:
    """It was not read, and what its file holds later would not be what the run began with."""
    company = tmp_path / "hidden"
    company.mkdir()
    (company / "__init__.py").write_text("")
    (company / "late.py").write_text("")
    (company / "rules.py").write_text("__import__('hidden.late')\n\n\ndef clean(rows):\n    return rows\n")
    function = read_function("hidden.rules:clean", str(tmp_path))
    with pytest.raises(TransformFailed, match="only what import statements name is"):
        load_function(function)


def test_files_beside_modules_are_found(tmp_path: Path) -> None:
    """Those of packages, with a file of their own or without, and those beside a module."""
    words = "import importlib.resources, pkgutil\n"
    for name in ("filed", "spaced"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "words.txt").write_text(name)
    (tmp_path / "filed" / "__init__.py").write_text("")
    (tmp_path / "words.txt").write_text("beside")
    (tmp_path / "reads.py").write_text(
        f"{words}import filed, spaced\n\n\ndef clean(rows):\n"
        "    folders = [importlib.resources.files(each.__name__) for each in (filed, spaced)]\n"
        "    texts = [(each / 'words.txt').read_text() for each in folders]\n"
        "    return [*texts, *(pkgutil.get_data(each, 'words.txt').decode() for each in (filed.__name__, __name__))]\n"
    )
    assert called_plainly(read_function("reads:clean", str(tmp_path))) == ["filed", "spaced", "filed", "beside"]


def test_modules_that_were_not_read_are_imported_from_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those without source, and those whose names are known only when the function runs."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("late_words", "built"):
        (tmp_path / f"{name}.py").write_text(f"WORD = {name!r}\n")
    py_compile.compile(str(tmp_path / "built.py"), cfile=str(tmp_path / "built.pyc"))
    (tmp_path / "built.py").unlink()
    (tmp_path / "late_rules.py").write_text(
        "import importlib\nimport built\n\n\ndef clean(rows):\n"
        "    return built.WORD, importlib.import_module('late_words').WORD\n"
    )
    assert called_plainly(read_function("late_rules:clean", str(tmp_path))) == ("built", "late_words")


def test_a_function_is_not_searched_in_the_folder_of_another(tmp_path: Path) -> None:
    """One process may have run links of several files, whose modules have the same names."""
    for word in ("first", "second"):
        (tmp_path / word).mkdir()
        write(tmp_path / word, word)
        assert called(read_function("rules:clean", str(tmp_path / word))) == (word, word * 2)
