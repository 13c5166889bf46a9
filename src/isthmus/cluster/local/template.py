"""What every broker of one Kafka version starts from, made once and kept in the cache.

Formatting a data folder takes a JVM of its own, yet what it writes differs between nodes only in
`meta.properties`: so one checkpoint is kept and copied. And a JVM that maps an archive of the
classes a broker loads (AppCDS) starts in half the time, so one broker is run once to make that
archive.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from isthmus.cluster.local.folders import cache_folder, exclusive
from isthmus.cluster.local.java import Java
from isthmus.cluster.local.layout import Layout, Ports
from isthmus.cluster.local.locks import Lock
from isthmus.cluster.local.ports import free_ports
from isthmus.cluster.local.probe import knows
from isthmus.cluster.local.process import Guard
from isthmus.cluster.local.properties import server_properties
from isthmus.errors import HostError

QUICK_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_CHECKPOINT: Final = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
_FORMAT_TERM_S: Final = 60.0
_TRAINING_TERM_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What brokers of one version share: the runtime, the class path, the first metadata, the class
    archive.
    """

    java: Java
    class_path: str
    checkpoint: Path
    class_archive: Path | None

    def format(self, data: Path, *, node_id: int, cluster_id: str) -> None:
        """Make `data` the empty log folder of a node, as `kafka-storage format` does; leave one
        that is there alone.
        """
        if (data / "meta.properties").exists():
            return
        target = data / _CHECKPOINT
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.checkpoint, target)
        meta = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={new_id()}\n"
        (data / "meta.properties").write_text(meta)

    def command(
        self, main_class: str, *arguments: str, heap_mb: int, fast_start: bool
    ) -> list[str]:
        """The command that runs a class of this Kafka. Give it `environment()`."""
        archive = (
            () if self.class_archive is None else (f"-XX:SharedArchiveFile={self.class_archive}",)
        )
        return _java(self.java, heap_mb, fast_start, *archive, main_class, *arguments)

    def environment(self) -> dict[str, str]:
        return _environment(self.class_path)


def new_id() -> str:
    """A random id as Kafka writes them: a UUID in 22 URL-safe characters, no dash in front."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def prepare(lock: Lock, java: Java, class_path: str) -> Template:
    """The template of this version on this Java, made now if it is not in the cache yet (about five
    seconds).

    :raises HostError: Kafka's formatting tool failed.
    """
    folder = cache_folder() / "templates" / lock.digest[:16]
    checkpoint, archive = (
        folder / "bootstrap.checkpoint",
        folder / f"{java.build.replace('/', '_')}.jsa",
    )
    failed = archive.with_suffix(".none")
    if not (checkpoint.exists() and (archive.exists() or failed.exists())):
        with (
            exclusive(folder / ".lock"),
            tempfile.TemporaryDirectory(dir=folder, prefix=".draft-") as draft,
        ):
            if not checkpoint.exists():
                _make_checkpoint(java, class_path, Path(draft), checkpoint)
            if not (archive.exists() or failed.exists()):
                template = Template(
                    java=java, class_path=class_path, checkpoint=checkpoint, class_archive=None
                )
                _make_archive(template, Path(draft), archive, failed)
    return Template(
        java=java,
        class_path=class_path,
        checkpoint=checkpoint,
        class_archive=archive if archive.exists() else None,
    )


def _make_checkpoint(java: Java, class_path: str, draft: Path, checkpoint: Path) -> None:
    layout = _solo(Ports(plaintext=1, controller=2))
    (draft / "server.properties").write_text(server_properties(layout, 1, draft))
    arguments = (
        "kafka.tools.StorageTool",
        "format",
        "-c",
        str(draft / "server.properties"),
        "-t",
        layout.cluster_id,
    )
    done = subprocess.run(
        _java(java, 256, True, *arguments),
        env=_environment(class_path),
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
    (draft / "data" / _CHECKPOINT).replace(checkpoint)


def _make_archive(template: Template, draft: Path, archive: Path, failed: Path) -> None:
    """Run one broker until it is ready and let its JVM write the archive at exit. Without one,
    brokers start slower.
    """
    plaintext, controller = free_ports(2)
    layout = _solo(Ports(plaintext=plaintext, controller=controller))
    settings, made = draft / "server.properties", draft / "kafka.jsa"
    settings.write_text(server_properties(layout, 1, draft))
    template.format(draft / "data", node_id=1, cluster_id=layout.cluster_id)
    guard = Guard()
    try:
        command = _java(
            template.java,
            256,
            True,
            f"-XX:ArchiveClassesAtExit={made}",
            "kafka.Kafka",
            str(settings),
        )
        broker = guard.spawn(command, environment=template.environment(), log=draft / "server.log")
        broker.wait_until(lambda: knows(plaintext, 1, cluster="training") > 0, _TRAINING_TERM_S)
        broker.send(signal.SIGTERM)
        broker.wait_gone(_TRAINING_TERM_S)
    finally:
        guard.end()
    if made.exists():
        made.replace(archive)
    else:
        failed.touch()


def _solo(ports: Ports) -> Layout:
    return Layout(name="training", cluster_id=new_id(), kafka_version="", nodes=(ports,))


def _java(java: Java, heap_mb: int, fast_start: bool, *arguments: str) -> list[str]:
    logging = resources.files("isthmus.cluster.local").joinpath("log4j2.xml")
    quick = QUICK_JVM if fast_start else ()
    return [
        str(java.executable),
        f"-Xmx{heap_mb}M",
        *quick,
        "-XX:-UsePerfData",
        "-Xshare:auto",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
        f"-Dlog4j2.configurationFile={logging}",
        *arguments,
    ]


def _environment(class_path: str) -> dict[str, str]:
    # In the environment the class path is out of the way: `ps` shows which broker it is.
    return {**os.environ, "CLASSPATH": class_path}
