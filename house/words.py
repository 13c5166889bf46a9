"""How the source speaks: functions that are no verbs, and words that hide who does what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from house.source import Function, Module

DIALECT: Final = ("told", "said", "whoever", "anew")

# Participles that do not end in -ed, but for those that read as verbs too (read, cut, put, set, split).
_IRREGULAR: Final = frozenset(
    re.findall(
        r"\w+",
        "begun born borne bought bound broken brought built caught chosen dealt done drawn fallen felt found given gone"
        " grown heard held hidden kept known laid led left lost made meant met paid said seen sent shown sold sought"
        " spoken stood sunk swept taken taught thought thrown told torn understood worn written",
    )
)
_VERBS_IN_ED: Final = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"})


def count_words(modules: Iterable[Module]) -> dict[str, int]:
    """How often each word of the dialect stands in code, comments and docstrings."""
    text = "\n".join(module.text for module in modules)
    return {word: len(re.findall(rf"\b{word}\b", text, re.IGNORECASE)) for word in DIALECT}


def find_participles(modules: Iterable[Module]) -> list[str]:
    """Functions whose whole name is a participle (`told`, `_ended`), as `path:line name`; properties are values."""
    return [
        f"{module.path}:{function.lineno} {function.name}"
        for module in modules
        for function in module.functions
        if is_participle(function.name.strip("_")) and not is_property(function)
    ]


def is_participle(name: str) -> bool:
    """Whether a name is one participle and nothing else."""
    return name in _IRREGULAR or (name.endswith("ed") and "_" not in name and name not in _VERBS_IN_ED)


def is_property(function: Function) -> bool:
    """Whether it is read like a value."""
    kinds = ("property", "computed_field")
    return any(kind in ast.unparse(each) for each in function.decorator_list for kind in kinds)


def find_modules_naming(modules: Iterable[Module], names: Iterable[str]) -> Mapping[str, list[str]]:
    """For each name the modules that write it down: as a field, a parameter, an argument by keyword, or a text.

    To read the attribute of a value is what it is there for, and does not count.
    """
    written = [(module.name, set(_list_written(module))) for module in modules]
    return {name: [module for module, found in written if name in found] for name in names}


def _list_written(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def list_settings(modules: Iterable[Module]) -> Iterator[str]:
    """Settings of the configuration file, but for those of a single word, which may mean something else elsewhere."""
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and _is_section(node):
                for field in node.body:
                    if (
                        isinstance(field, ast.AnnAssign)
                        and isinstance(field.target, ast.Name)
                        and "_" in field.target.id
                    ):
                        yield field.target.id


def _is_section(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).rpartition(".")[2].endswith("Section") for base in node.bases)
