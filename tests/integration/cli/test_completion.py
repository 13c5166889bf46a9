"""Completion with the names of real clusters."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer

import isthmus
from isthmus.local import LocalCluster
from isthmus.model.namespace import NamespaceMap
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import Given

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-c", "from isthmus.cli.entry import main; main()"]


def completions(*words: str) -> list[str]:
    """What a shell is told."""
    asked = {"_ISTHMUS_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    written = {"_TYPER_COMPLETE_ARGS": " ".join(["isthmus", *words])}
    done = subprocess.run(COMMAND, env={**os.environ, **asked, **written}, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, east: LocalCluster, west: LocalCluster) -> Path:
    """A configuration of both clusters and no link, which is found from here; nothing is remembered of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ISTHMUS_CONFIG", raising=False)
    written = tmp_path / "isthmus.yaml"
    written.write_text(
        f"""\
clusters:
  east: {{bootstrap_servers: "{east.bootstrap_servers}"}}
  west: {{bootstrap_servers: "{west.bootstrap_servers}"}}
"""
    )
    return written


def test_the_second_time_live_names_are_there(file: Path, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """The first call has what the file says and starts a look; as soon as that is over, topics and groups are known."""
    name = topic("complete")
    topics.create(east, f"{name}.a")
    topics.produce(east, f"{name}.a", [Given(b"k", b"v", [], topics.SEPTEMBER)])
    consumer = Consumer({"bootstrap.servers": east.bootstrap_servers, "group.id": f"{name}.g"})
    consumer.subscribe([f"{name}.a"])
    with file.open("a") as written:
        written.write(
            f"""\
links:
  - name: there
    source: east
    target: west
    topics: {{include: ["{name}.*"], naming: mm2}}
    groups: {{include: ["{name}.*"]}}
"""
        )
    assert completions("status", "--topic", "") == []
    deadline = time.monotonic() + TERM_S
    while completions("groups", "describe", "") != [f"{name}.g"]:
        assert time.monotonic() < deadline
        consumer.poll(0.2)
    consumer.close()
    assert completions("status", "--topic", "") == [f"{name}.a", f"east.{name}.a"]
    assert completions("wait", "there/e") == [f"there/east.{name}.a"]


def test_links_that_are_declared_are_known_as_well(file: Path, topic: Callable[[str], str]) -> None:
    """The file has none of them."""
    name = topic("declared")
    links = isthmus.open(file).declarations
    maps = (NamespaceMap.parse(f"{name}-:{name}-"),)
    links.create(name, source="east", target="west", maps=maps, validate=False)
    try:
        deadline = time.monotonic() + TERM_S
        while completions("link", "promote", name) != [name]:
            assert time.monotonic() < deadline
    finally:
        links.delete(name)
