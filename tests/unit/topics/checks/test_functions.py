"""Functions of transforms that cannot be loaded, found before their topics begin."""

from __future__ import annotations

import asyncio
from pathlib import Path

from isthmus.config.functions import read_function
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.links.transform import Transform
from isthmus.model.naming import NamedTopics, SourceTopic, TargetTopic
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.checks.functions import find_unloadable

EAST, WEST = (Cluster(alias=name, bootstrap_servers=("127.0.0.1:1",)) for name in ("east", "west"))


def test_a_mistake_in_a_module_is_said_to_be_one(tmp_path: Path) -> None:
    """It is not the name that has to be corrected, and a run takes the mended module when it reads the file again."""
    (tmp_path / "rules.py").write_text("CLEAN = clean\n")
    transform = Transform(python=read_function("rules:clean", str(tmp_path)))
    topics = TopicSettings(include=(TopicPattern.parse("*"),))
    link = Link(name="l", source=EAST, target=WEST, topics=topics, transforms=(transform,))
    names = NamedTopics(sources={TargetTopic("orders"): SourceTopic("orders")}, refused={})
    (problem,) = asyncio.run(find_unloadable(link, names)).values()
    assert "NameError" in problem.message
    assert problem.hint.startswith("Correct the module, or its name, and have the run read the file again")
