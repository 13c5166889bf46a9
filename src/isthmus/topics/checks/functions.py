"""Whether the Python functions of transforms can be loaded, before their topics begin."""

from __future__ import annotations

import asyncio

from isthmus.engine.mapped.transformer import TransformFailed
from isthmus.model.link import Link
from isthmus.model.links.transform import RecordFunction
from isthmus.model.naming import NamedTopics, TargetTopic
from isthmus.model.problem import Problem
from isthmus.spark.transforms.python import load_function


async def find_unloadable(link: Link, names: NamedTopics) -> dict[TargetTopic, Problem]:
    """Return, by topic at the target, why the functions that change records of topics cannot be loaded here."""
    wanted: dict[RecordFunction, list[TargetTopic]] = {}
    for name, source in names.sources.items():
        transform = link.transform_of(source)
        if transform is not None and transform.python is not None:
            wanted.setdefault(transform.python, []).append(name)
    found: dict[TargetTopic, Problem] = {}
    for function, topics in wanted.items():
        if (problem := await asyncio.to_thread(_load, function)) is not None:
            found |= dict.fromkeys(topics, problem)
    return found


def _load(function: RecordFunction) -> Problem | None:
    try:
        load_function(function)
    except TransformFailed as error:
        return Problem(
            f"records cannot be changed (transform): {error}",
            "Correct the module, or its name, and have the run read the file again (SIGHUP). A module has to be where "
            "Python finds it, or beside the configuration file.",
        )
    return None
