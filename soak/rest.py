"""All that the description of the REST API allows, and much that it does not, asked of a server over real clusters.

    python -m soak.rest --requests 10000 --seed 1

It fails in the first round in which an answer is a 5xx, or has a status, a type or a content that the description does
not have. Verifications are refused here, since each would be a Spark of its own.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.web.serving import ServeSettings, serving_beside

_CASES: Final = re.compile(r"(\d[\d,]*) generated")
_CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
_HEAP_MB: Final = 256
_NAMED: Final = """
[parameters]
"path.link" = "east-west"
"path.cluster" = "east"
"path.topic" = "shop.orders"
"""
"""Names that there are: with others little more is asked than whether they are known. Every second round has these."""


def main() -> int:
    """Ask until so many requests were answered; the exit code says whether all of them were."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--requests", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--each", type=int, default=60, help="requests of each route in a round, and those that follow")
    asked.add_argument("--port", type=int, default=8089)
    given = asked.parse_args()
    with (
        LocalCluster.start("east", brokers=1, heap_mb=_HEAP_MB) as east,
        LocalCluster.start("west", brokers=1, heap_mb=_HEAP_MB) as west,
        tempfile.TemporaryDirectory() as folder,
    ):
        admin = AdminClient({"bootstrap.servers": east.bootstrap_servers})
        created = admin.create_topics([NewTopic("shop.orders", 2, 1)])
        created["shop.orders"].result()
        topics = TopicSettings(include=(TopicPattern.parse("shop.*"),))
        link = Link(name="east-west", source=east.cluster(), target=west.cluster(), topics=topics)
        configuration = Configuration(clusters=(link.source, link.target), links=(link,))
        settings = ServeSettings(
            listen=f"127.0.0.1:{given.port}", tokens=Path(folder) / "tokens.json", requests_per_s=1_000_000
        )
        with serving_beside(configuration, settings):
            return _rounds(f"http://{settings.listen}", Path(folder), given)


def _rounds(base: str, folder: Path, given: argparse.Namespace) -> int:
    begun, done = time.monotonic(), 0
    file = folder / "schemathesis.toml"
    for seed in itertools.count(given.seed):
        file.write_text(_NAMED if seed % 2 else "")
        code, cases = _round(base, file, seed, given.each)
        done += cases
        sys.stdout.write(f"seed {seed}: {done:,} requests in {time.monotonic() - begun:.0f} s\n")
        sys.stdout.flush()
        if code or not cases or done >= given.requests:
            break
    return code or int(not cases)


def _round(base: str, file: Path, seed: int, each: int) -> tuple[int, int]:
    """The exit code of one run of schemathesis, and how many requests it sent."""
    command = [
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
        *("--config-file", str(file), "run", f"{base}/v1/openapi.json", "--generation-database", "none"),
        *(
            "--checks",
            ",".join(_CHECKS),
            "--phases",
            "examples,coverage,fuzzing",
            "--exclude-path",
            "/v1/events",
        ),
        *("--max-examples", str(each), "--workers", "1", "--seed", str(seed), "--no-shrink"),
        *("--request-timeout", "120", "--suppress-health-check", "all", "--warnings", "off", "--no-color"),
    ]
    # What it remembers of its runs goes with the folder.
    found = subprocess.run(command, cwd=file.parent, stdout=subprocess.PIPE, text=True, check=False)
    cases = _CASES.search(found.stdout)
    if found.returncode:
        sys.stdout.write(found.stdout)
    return found.returncode, int(cases[1].replace(",", "")) if cases else 0


if __name__ == "__main__":
    sys.exit(main())
