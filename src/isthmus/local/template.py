"""The template from which every broker of one Kafka version starts, made once and kept in the cache.

Formatting a data folder takes a JVM of its own, yet its output differs between nodes only in `meta.properties`: so one
checkpoint is kept and copied. And a JVM that maps an archive of the classes a broker loads (AppCDS) starts in half the
time, so one broker is run once to make it.
"""

from __future__ import annotations

import base64
import shutil
import signal
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isthmus.config.reading.locked import exclusive
from isthmus.errors import HostError
from isthmus.local.folders import cache_folder
from isthmus.local.jars import OnJars
from isthmus.local.jvm import Jvm, jvm_for
from isthmus.local.layout import Layout, Ports
from isthmus.local.ports import free_ports
from isthmus.local.probe import knows
from isthmus.local.process import ProcessGuard
from isthmus.local.properties import server_properties

_CHECKPOINT: Final = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
_HEAP_MB: Final = 256
_FORMAT_TERM_S: Final = 60.0
_TRAINING_TERM_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTemplate:
    """The shared part of brokers of one version: how to run them, and their first metadata."""

    jvm: Jvm
    checkpoint: Path

    def format(self, data: Path, *, node_id: int, cluster_id: str) -> None:
        """Make `data` a node's empty log folder, as `kafka-storage format` does.

        A folder that is formatted already is left alone.
        """
        if (data / "meta.properties").exists():
            return
        place = data / _CHECKPOINT
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.checkpoint, place)
        (data / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={new_id()}\n"
        )


def new_id() -> str:
    """A random id as Kafka writes them: a UUID in 22 URL-safe characters, no dash in front."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def kafka_template(*, progress: OnJars | None = None) -> ClusterTemplate:
    """The template of Kafka's brokers, made now if it is not in the cache yet (in four seconds).

    :raises JavaMissing: There is no Java 17 or newer.
    :raises JarsUnavailable: The jars are neither cached nor could they be fetched.
    :raises HostError: Kafka's formatting tool failed.
    """
    jvm = jvm_for("broker-4.4.0", progress=progress)
    folder = cache_folder() / "templates" / jvm.lock.digest[:16]
    checkpoint = folder / "bootstrap.checkpoint"
    archive = folder / f"{jvm.java.build.replace('/', '_')}.jsa"
    if not (checkpoint.exists() and archive.exists()):
        with exclusive(folder / ".lock"):
            if not checkpoint.exists():
                _make_checkpoint(jvm, checkpoint)
            if not archive.exists():
                _make_archive(ClusterTemplate(jvm=jvm, checkpoint=checkpoint), archive)
    usable = archive if archive.stat().st_size else None
    return ClusterTemplate(jvm=jvm.with_archive(usable), checkpoint=checkpoint)


def _make_checkpoint(jvm: Jvm, checkpoint: Path) -> None:
    with tempfile.TemporaryDirectory(dir=checkpoint.parent, prefix=".format-") as draft:
        layout, settings = _write_settings(Ports(plaintext=1, controller=2), Path(draft))
        tool = ("kafka.tools.StorageTool", "format", "-c", str(settings), "-t", layout.cluster_id)
        done = subprocess.run(
            jvm.command(*tool, heap_mb=_HEAP_MB),
            env=jvm.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FORMAT_TERM_S,
            check=False,
        )
        if done.returncode != 0:
            raise HostError(
                f"Kafka could not format a data folder: {(done.stderr or done.stdout).strip()}",
                hint=f"Remove {cache_folder()} and try again: its jars may be damaged.",
            )
        Path(draft, "data", _CHECKPOINT).replace(checkpoint)


def _make_archive(template: ClusterTemplate, archive: Path) -> None:
    """Run one broker until it is ready and let its JVM write the archive at exit.

    Where that fails the archive is left empty: brokers then start without one, only slower.
    """
    plaintext, controller = free_ports(2)
    guard = ProcessGuard()
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".train-") as draft:
        made = Path(draft, "kafka.jsa")
        made.touch()
        ports = Ports(plaintext=plaintext, controller=controller)
        layout, settings = _write_settings(ports, Path(draft))
        template.format(Path(draft, "data"), node_id=1, cluster_id=layout.cluster_id)
        record = [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        command = template.jvm.command("kafka.Kafka", str(settings), heap_mb=_HEAP_MB, options=record)
        try:
            broker = guard.spawn(command, environment=template.jvm.environment, log=Path(draft, "server.log"))
            broker.wait_until(lambda: knows(plaintext, 1, cluster=layout.name) > 0, _TRAINING_TERM_S)
            broker.send(signal.SIGTERM)
            broker.wait_stopped(_TRAINING_TERM_S)
        finally:
            guard.end()
        made.replace(archive)


def _write_settings(ports: Ports, folder: Path) -> tuple[Layout, Path]:
    layout = Layout(name="training", cluster_id=new_id(), kafka_version="", nodes=(ports,))
    settings = folder / "server.properties"
    settings.write_text(server_properties(layout, 1, folder))
    return layout, settings
