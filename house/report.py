"""The table of `make house`: each figure, and the bound that it has to keep."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from house.flags import find_events, find_flags
from house.lanes import RUN, find_assignments, find_values
from house.ledger import find_filters, find_keys
from house.source import Module, read_modules
from house.structure import count_files, find_cycles
from house.words import count_words, find_modules_naming, find_participles, list_settings

FILES_PER_FOLDER_MAX: Final = 20
MODULES_PER_SETTING_MAX: Final = 3
LANE_FIELDS_MAX: Final = 15
EVENTS_MAX: Final = 6
FLAGS_MAX: Final = 12
FILTERS_MAX: Final = 35
PARTICIPLES_MAX: Final = 50
DIALECT_MAX: Final = 100
_RUN: Final = "isthmus.run"
SIDELESS: Final = re.compile(r"tuple\[str, int\]|\bPartitionKey\b")
"""The types of a partition that is not known to be of a link's source or of its target."""


@dataclass(frozen=True)
class Figure:
    """One row of the table.

    Attributes:
        what: What is counted.
        count: How many there are.
        bound: How many there may be; None where the figure is reported only.
        places: Where they are, the worst first.
    """

    what: str
    count: int
    bound: int | None = None
    places: Sequence[str] = ()

    @property
    def is_kept(self) -> bool:
        """Whether the figure keeps its bound."""
        return self.bound is None or self.count <= self.bound


def take_figures() -> list[Figure]:
    """Count everything, from the source as it lies there."""
    product = read_modules("src")
    return [*_take_sizes(product), *_take_structure(product), *_take_values(product), *_take_words(product)]


def _take_sizes(product: list[Module]) -> list[Figure]:
    tests = read_modules("tests", "testing", "soak", "bench")
    return [
        Figure("files of the product", len(product)),
        Figure("lines of the product", sum(module.lines for module in product)),
        Figure("files of fewer than 50 lines", sum(module.lines < 50 for module in product if module.lines)),
        Figure("files of tests, soak and bench", len(tests)),
        Figure("lines of tests, soak and bench", sum(module.lines for module in tests)),
    ]


def _take_structure(product: list[Module]) -> list[Figure]:
    circles = [" ".join(name.removeprefix("isthmus.") for name in circle) for circle in find_cycles(product)]
    counts = sorted(count_files(product).items(), key=lambda item: -item[1])
    crowded = [f"{folder}: {count}" for folder, count in counts if count > FILES_PER_FOLDER_MAX]
    clients = _find_clients(product)
    return [
        Figure("circles between folders", len(circles), 0, circles),
        Figure(f"folders with more than {FILES_PER_FOLDER_MAX} files", len(crowded), 0, crowded),
        Figure("clients opened outside the session", len(clients), 0, clients),
    ]


def _find_clients(product: list[Module]) -> list[str]:
    """Where a `Client(` is made, but for the session that owns them."""
    return [
        f"{module.path}:{node.lineno}"
        for module in product
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Client"
        if not module.name.endswith(".session")
    ]


def _take_values(product: list[Module]) -> list[Figure]:
    classes = [(module, node) for module in product for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    typed = [f"{m.path}:{node.lineno} {node.name}" for m, node in classes if _has_base(node, "TypedDict")]
    forms = [place for place in typed if place.endswith("Json")]
    twice = [function for module in product for function in module.functions if function.name == "as_dict"]
    named = find_modules_naming(product, set(list_settings(product)))
    spread = sorted(((len(homes), name) for name, homes in named.items()), reverse=True)
    wide = [f"{name}: {count}" for count, name in spread if count > MODULES_PER_SETTING_MAX]
    sideless = sorted((-count, module.name) for module in product if (count := len(SIDELESS.findall(module.text))))
    return [
        Figure("TypedDicts named *Json", len(forms), 0, forms),
        Figure("TypedDicts", len(typed)),
        Figure("functions called as_dict", len(twice)),
        Figure(
            "partitions of no stated side",
            -sum(count for count, _ in sideless),
            places=[f"{name}: {-count}" for count, name in sideless],
        ),
        Figure(f"settings written down in more than {MODULES_PER_SETTING_MAX} modules", len(wide), 0, wide),
        *_take_lanes(product),
        *_take_links(product),
        *_take_documents(product),
    ]


def _take_lanes(product: list[Module]) -> list[Figure]:
    values = find_values(product)
    parts = sorted((-len(value.fields), name) for name, value in values.items() if name != RUN)
    sizes = [f"{name}: {-count}" for count, name in parts]
    assignments = find_assignments(product, values)
    places = [place for found in assignments.values() for place in found]
    return [
        Figure(f"fields of {RUN}", len(values[RUN].fields), LANE_FIELDS_MAX),
        Figure("fields of the largest value of a lane", -parts[0][0], LANE_FIELDS_MAX, sizes),
        Figure("modules that assign what is in a lane's values", len(assignments), 0, places),
    ]


def _take_links(product: list[Module]) -> list[Figure]:
    run = [module for module in product if module.name.startswith(f"{_RUN}.")]
    events = [f"{module.path}:{call.lineno}" for module in run for call in find_events(module.tree)]
    flags = [f"{module.path}:{flag.lineno} {flag.attr}" for module in run for flag in find_flags(module.tree)]
    return [
        Figure("events around a running link", len(events), EVENTS_MAX, events),
        Figure("assignments of booleans around a running link", len(flags), FLAGS_MAX, flags),
    ]


def _take_documents(product: list[Module]) -> list[Figure]:
    filters, keys = find_filters(product), find_keys(product)
    return [
        Figure("documents told apart outside the ledger", len(filters), FILTERS_MAX, filters),
        Figure("keys of documents made by hand", len(keys), 0, keys),
    ]


def _has_base(node: ast.ClassDef, name: str) -> bool:
    return any(ast.unparse(base) == name for base in node.bases)


def _take_words(product: list[Module]) -> list[Figure]:
    participles = find_participles(product)
    words = count_words(product)
    places = [f"{word}: {count}" for word, count in words.items()]
    return [
        Figure("functions whose name is a bare participle", len(participles), PARTICIPLES_MAX, participles),
        Figure("told, said, whoever, anew", sum(words.values()), DIALECT_MAX, places),
    ]
