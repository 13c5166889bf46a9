"""Jars come into the cache once, checked, whoever asks and however many ask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isthmus.errors import JarsUnavailable, JavaMissing
from isthmus.local.jars import class_path
from isthmus.local.java import Java, find_java
from isthmus.local.locks import Lock, parse_lock
from testing.patience import TERM_S

pytestmark = pytest.mark.integration

HASH = "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"
LINE = f"org.slf4j:slf4j-api:1.7.36 sha256:{HASH} 41125"
NO_NETWORK = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9"
ASK = """
import sys
from isthmus.local.jars import class_path
from isthmus.local.java import find_java
from isthmus.local.locks import parse_lock
print(class_path(parse_lock("one", sys.argv[1]), find_java(), progress=lambda *_: print("fetched")))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "isthmus" / "jars"


@pytest.fixture
def one_jar() -> Lock:
    """A small jar."""
    return parse_lock("one", LINE)


@pytest.mark.usefixtures("cache")
def test_two_processes_fetch_once() -> None:
    """Of two processes that ask at the same time one fetches, and both get the same class path."""
    asking = [subprocess.Popen([sys.executable, "-c", ASK, LINE], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=TERM_S)[0].split() for process in asking]
    assert sorted(len(words) > 1 for words in said) == [False, True]
    (jar,) = {words[-1] for words in said}
    assert Path(jar).stat().st_size == 41125


def test_what_is_there_needs_no_network(cache: Path, one_jar: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached jar is used as it is; a missing one, without network, is an error with a hint."""
    jar = cache / one_jar.jars[0].path
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", NO_NETWORK)
    with pytest.raises(JarsUnavailable, match="slf4j-api") as missing:
        class_path(one_jar, find_java())
    assert str(cache) in missing.value.hint
    assert not jar.exists()
    jar.parent.mkdir(parents=True)
    jar.write_bytes(bytes(41125))
    assert class_path(one_jar, find_java()) == str(jar)


def test_another_jar_than_pinned_is_not_kept(cache: Path, one_jar: Lock) -> None:
    """What arrives with another hash than the lock says is refused."""
    other = parse_lock("one", LINE.replace("d3ef", "d3ee"))
    with pytest.raises(JarsUnavailable, match=f"SHA-256 {HASH}"):
        class_path(other, find_java())
    assert not (cache / one_jar.jars[0].path).exists()


def test_java_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME comes first; an old Java there is passed over, and where there is no other, told."""
    # A Spark session of an earlier test may have set it.
    monkeypatch.delenv("JAVA_HOME", raising=False)
    usual = find_java()
    new = java_that_says(tmp_path / "new", '21.0.1" 2023-10-17\nOpenJDK (build 21.0.1+12-29, mixed)')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    assert find_java() == Java(executable=new, major=21, build="21.0.1+12-29")
    java_that_says(tmp_path / "old", '1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert find_java() == usual
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(JavaMissing, match=r"Java 17 or newer is needed.*is Java 8"):
        find_java()


def java_that_says(home: Path, version: str) -> Path:
    """An executable that answers `-version` like a Java."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\nopenjdk version \"{version}\nEND\n")
    java.chmod(0o755)
    return java
