"""A schema registry to be compatible with: Apicurio, which keeps all in memory."""

from __future__ import annotations

import http.client
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Final, Self

from isthmus.config.reading.locked import exclusive
from isthmus.local.folders import cache_folder
from isthmus.local.jars import OnJars
from isthmus.local.jvm import Jvm, jvm_for
from isthmus.local.layout import HOST
from isthmus.local.ports import free_ports
from isthmus.local.process import READY_TERM_S, ProcessGuard, start_failure

_RUNNER: Final = "apicurio-registry-app-3.0.9-runner.jar"
_HEAP_MB: Final = 256
_ASK_TERM_S: Final = 2.0


class ApicurioServer:
    """An Apicurio 3.0.9 on a free port of loopback, empty at first; it ends with this process.

    with ApicurioServer.start() as registry:
        print(registry.url)
    """

    def __init__(self, jvm: Jvm, program: Path) -> None:
        self._guard = ProcessGuard()
        (self._port,) = free_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="isthmus-apicurio-"))
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self._port),
            "apicurio.datasource.jdbc.initial-size": "2",
            "apicurio.datasource.jdbc.min-size": "2",
            "apicurio.datasource.jdbc.max-size": "10",
            "java.io.tmpdir": str(self.folder),
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        command = jvm.command("-jar", str(program), heap_mb=_HEAP_MB, options=options)
        self._log = self.folder / "apicurio.log"
        self._process = self._guard.spawn(command, environment=jvm.environment, log=self._log)

    @classmethod
    def start(cls, *, progress: OnJars | None = None) -> Self:
        """Start it and wait until it answers.

        :raises JavaMissing: There is no Java 17 or newer.
        :raises JarsUnavailable: It is neither cached nor could it be fetched.
        :raises HostError: It ended while it started, or was not ready in time.
        """
        jvm = jvm_for("apicurio-3.0.9", progress=progress)
        server = cls(jvm, _unpack(jvm))
        try:
            if not server._process.wait_until(server._answers, READY_TERM_S):
                raise start_failure("Apicurio", server._process, server._log, READY_TERM_S)
        except BaseException:
            server.stop()
            raise
        return server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of its API that is compatible with Confluent's."""
        return f"http://{HOST}:{self._port}/apis/ccompat/v7"

    def stop(self) -> None:
        """End it at once and remove its data."""
        self._guard.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        asked = http.client.HTTPConnection(HOST, self._port, timeout=_ASK_TERM_S)
        try:
            asked.request("GET", "/apis/registry/v3/system/info")
            return asked.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()


def _unpack(jvm: Jvm) -> Path:
    """The program of the archive that the lock names, unpacked once."""
    folder = cache_folder() / "templates" / jvm.lock.digest[:16]
    program = folder / "apicurio" / _RUNNER
    with exclusive(folder / ".lock"):
        if not program.exists():
            draft = Path(tempfile.mkdtemp(dir=folder, prefix=".unpacked-"))
            with tarfile.open(jvm.class_path) as archive:
                archive.extractall(draft, filter="data")
            draft.replace(program.parent)
    return program
