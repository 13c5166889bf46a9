"""`isthmus tree show`: a tree as it is drawn, on the terminal and into a file."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

from isthmus.cli.clusters.trees import show
from isthmus.cli.output import OutputFormat

CLUSTERS = {alias: {"bootstrap_servers": f"{alias}:9092"} for alias in ("ams", "fra", "lon", "par")}
TREE = {"name": "flights", "clusters": [["ams", "fra"], ["lon", "par"]], "topics": ["flights.*"]}
TEXT = json.dumps({"clusters": CLUSTERS, "trees": [TREE]})


def test_four_clusters_on_two_levels_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Levels with the clusters below them, and each distributor with its bit and its mask; the same into a file."""
    path, svg = tmp_path / "isthmus.yaml", tmp_path / "flights.svg"
    path.write_text(TEXT, encoding="utf-8")
    show(name=None, svg=svg, counts=False, path=path, output=OutputFormat.TABLE)
    printed = capsys.readouterr()
    told = [" ".join(line.split()) for line in printed.out.splitlines()]
    drawn = [line.lstrip("├└│─ ") for line in told[:7]]
    assert drawn == ["flights: level 2", "1 level 1", "ams", "fra", "2 level 1", "lon", "par"]
    assert "flights.ams.1 1 01 01 fra fra" in told
    assert "flights.ams.2 2 10 11 lon lon, par" in told
    assert "8 distributors, at most 2 hops; from every cluster to every other it would take 12" in " ".join(
        printed.err.split()
    )
    texts = [str(each.text) for each in xml.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314
    assert sorted(texts) == ["ams", "fra", "level 1", "level 1", "level 2", "lon", "par"]
