"""Two single-broker clusters, a link between them that runs, and a gateway in front of the source, for the benches."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from testing.brokers.proxy import HOST, Proxy

LINK: Final = "linked"
"""The link, and the prefix of what it copies, without the dot."""
_HEAP_MB: Final = 768
_TERM_S: Final = 120.0
_LOOK_S: Final = 0.5
_COMMAND: Final = (sys.executable, "-c", "from isthmus.cli.entry import main; main()")


@dataclass(frozen=True, slots=True)
class Linked:
    """What runs. `called` is how the command is called, `servers` are those of the gateway."""

    east: LocalCluster
    west: LocalCluster
    called: Sequence[str]
    servers: str
    gateway_pid: int
    folder: Path

    def done(self, *command: str) -> str:
        """What a command prints, errors behind it.

        :raises SystemExit: It failed.
        """
        done = subprocess.run(
            [*self.called, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout + done.stderr

    def until(self, state: str) -> None:
        """Wait until the link is in a state.

        :raises SystemExit: It does not come to it.
        """
        deadline = time.monotonic() + _TERM_S
        while f'"{state}"' not in (told := self.done("status", LINK, "-o", "json")):
            if time.monotonic() > deadline:
                logs = "\n".join(each.read_text()[-2000:] for each in sorted(self.folder.glob("*.log")))
                raise SystemExit(f"the link is not {state}:\n{told}\n{logs}")
            time.sleep(_LOOK_S)


@contextmanager
def linked(topics: Mapping[str, int], *settings: str, delay_s: float = 0.0, secure: bool = True) -> Iterator[Linked]:
    """A link that follows, of these topics at the source with so many partitions each; those of the prefix are copied.

    Every byte between the follower and the rest is `delay_s` on its way. A target that is `secure` is closed by rules.
    """
    with ExitStack() as stack:
        east = stack.enter_context(LocalCluster.start("linked-east", brokers=1, heap_mb=_HEAP_MB, fast_start=False))
        west = stack.enter_context(
            LocalCluster.start("linked-west", brokers=1, heap_mb=_HEAP_MB, fast_start=False, secure=secure)
        )
        far, near, metrics = free_ports(3)
        there = west.admin_bootstrap_servers
        stack.enter_context(Proxy(far, int(there.rpartition(":")[2]), delay_s=delay_s))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-linked-")))
        clusters = {
            "east": {"bootstrap_servers": east.bootstrap_servers},
            "west": {"bootstrap_servers": there, "addresses": {there: f"{HOST}:{far}"}},
        }
        (folder / "isthmus.yaml").write_text(json.dumps({"clusters": clusters}))
        admin = AdminClient({"bootstrap.servers": east.bootstrap_servers})
        for future in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
            future.result()
        called, where = (*_COMMAND, "-c", str(folder / "isthmus.yaml")), f"{HOST}:{near}"
        gateway = ("gateway", "east", "--listen", where, "--advertise", where, "--metrics", f"{HOST}:{metrics}")
        pid = stack.enter_context(_beside(folder / "gateway.log", *called, *gateway))
        found = Linked(east=east, west=west, called=called, servers=where, gateway_pid=pid, folder=folder)
        maps = ("--map", f"{LINK}.", "--group-map", f"{LINK}.")
        found.done("link", "create", LINK, "--source", "east", "--target", "west", *maps, *settings)
        stack.enter_context(_beside(folder / "run.log", *called, "run"))
        found.until("FOLLOWING")
        yield found


@contextmanager
def _beside(log: Path, *command: str) -> Iterator[int]:
    """A process that runs meanwhile."""
    with log.open("wb") as told, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=told) as runs:
        try:
            yield runs.pid
        finally:
            runs.terminate()
