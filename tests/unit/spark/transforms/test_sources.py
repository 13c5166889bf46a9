"""Modules that are loaded from the source that was read."""

from __future__ import annotations

import pickle
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


def called(function: Any) -> tuple[str, str]:
    kept, both = cast("Any", load_function(function))(None)
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
