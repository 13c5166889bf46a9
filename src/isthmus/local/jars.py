"""Broker jars in the user's cache, fetched once from the public Maven repository.

The fetching is done by Apache Ivy, which every Spark carries: no Maven is needed, and no
address is written here, since Ivy knows the repository itself. Ivy is given the exact list, so it
resolves nothing and reads no POM.
"""

from __future__ import annotations

import hashlib
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final
from xml.sax.saxutils import quoteattr

from isthmus.config.reading.locked import exclusive
from isthmus.errors import JarsUnavailable
from isthmus.local.folders import cache_folder
from isthmus.local.java import Java
from isthmus.local.locks import Jar, Lock
from isthmus.local.spark import find_spark

OnJars = Callable[[int, int], None]
"""Called with the number of present jars and of needed ones."""

_SILENCE_TERM_S: Final = 45.0
_LAYOUT: Final = "[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
_IVY_JVM: Final = ("-Xmx512M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_SETTINGS: Final = (
    '<ivysettings><settings defaultResolver="public"/><resolvers>'
    '<ibiblio name="public" m2compatible="true" usepoms="false" useMavenMetadata="false"'
    ' checksums=""/></resolvers></ivysettings>'
)


def class_path(lock: Lock, java: Java, *, progress: OnJars | None = None) -> str:
    """The class path of `lock`, its jars fetched if they are not in the cache yet.

    Several processes may ask at once: one fetches, the others wait for it.

    :raises JarsUnavailable: A jar is neither in the cache nor could it be fetched, or what came
        is not the pinned one.
    """
    folder = cache_folder() / "jars"
    if _missing(lock, folder):
        with exclusive(folder / ".lock"):
            missing = _missing(lock, folder)
            if missing:
                _fetch(missing, folder, java, _report(lock, missing, progress))
    return os.pathsep.join(str(folder / jar.path) for jar in lock.jars)


def _missing(lock: Lock, folder: Path) -> list[Jar]:
    return [jar for jar in lock.jars if not _is_there(jar, folder)]


def _is_there(jar: Jar, folder: Path) -> bool:
    # The hash was checked when the jar came in; its size shows a copy that was cut short since.
    try:
        return (folder / jar.path).stat().st_size == jar.size_bytes
    except FileNotFoundError:
        return False


def _report(lock: Lock, missing: Sequence[Jar], progress: OnJars | None) -> Callable[[int], None]:
    def report(fetched: int) -> None:
        if progress is not None:
            progress(len(lock.jars) - len(missing) + fetched, len(lock.jars))

    return report


def _fetch(jars: Sequence[Jar], folder: Path, java: Java, fetched: Callable[[int], None]) -> None:
    fetched(0)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as draft:
        work = Path(draft)
        cause = _run_ivy(jars, work, java, fetched)
        for jar in jars:
            arrived = work / "jars" / jar.path
            if not arrived.is_file():
                raise JarsUnavailable(
                    f"{jar} could not be fetched{cause}",
                    hint="Connect to the network and try again, or copy the folder "
                    f"{folder} from a machine that has it.",
                )
            _keep(jar, arrived, folder / jar.path)


def _keep(jar: Jar, arrived: Path, place: Path) -> None:
    digest = hashlib.sha256(arrived.read_bytes()).hexdigest()
    if digest != jar.sha256:
        raise JarsUnavailable(
            f"{jar} arrived with SHA-256 {digest} where {jar.sha256} is pinned; it was not kept",
            hint="Try again; if it stays so, a proxy changes files on their way to this machine.",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    # A class archive remembers the times of its jars: a jar fetched again must look as before.
    os.utime(arrived, (0, 0))
    arrived.replace(place)


def _run_ivy(jars: Sequence[Jar], work: Path, java: Java, fetched: Callable[[int], None]) -> str:
    """Let Ivy put the jars below `work`; return its message about a failure, to end a sentence."""
    settings, module = work / "settings.xml", work / "ivy.xml"
    settings.write_text(_SETTINGS)
    module.write_text(_ivy_module(jars))
    command = [str(java.executable), *_IVY_JVM, "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
    command += ["-settings", str(settings), "-cache", str(work / "cache")]
    command += ["-ivy", str(module), "-confs", "default", "-retrieve", f"{work}/jars/{_LAYOUT}"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ivy:
        try:
            return _follow(_lines(ivy.stdout), fetched) if ivy.stdout else ""
        except TimeoutError as silent:
            return f": {silent}"
        finally:
            ivy.kill()


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield the output of Ivy until it ends.

    :raises TimeoutError: It fell silent; it has no timeout of its own.
    """
    pending = b""
    while select.select([stream], [], [], _SILENCE_TERM_S)[0]:
        more = os.read(stream.fileno(), 1 << 16)
        if not more:
            return
        *lines, pending = (pending + more).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    raise TimeoutError(f"nothing came for {_SILENCE_TERM_S:.0f} s")


def _follow(lines: Iterable[str], fetched: Callable[[int], None]) -> str:
    done, cause = 0, ""
    for line in lines:
        if "[SUCCESSFUL ]" in line:
            done += 1
            fetched(done)
        elif "Exception" in line or "ERROR" in line:
            cause = cause or f": {line.strip()}"
    return cause


def _ivy_module(jars: Sequence[Jar]) -> str:
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="isthmus" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(map(_ivy_dependency, jars))}</dependencies></ivy-module>"
    )


def _ivy_dependency(jar: Jar) -> str:
    group, artifact, version, kind = map(quoteattr, (jar.group, jar.artifact, jar.version, jar.type))
    classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
    return (
        f'<dependency org={group} name={artifact} rev={version} transitive="false"'
        f' conf="default->*"><artifact name={artifact} type={kind} ext={kind}{classifier}/></dependency>'
    )


def _ivy_jar() -> Path:
    spark = find_spark()
    found = [*Path(spark.home, "jars").glob("ivy-*.jar")]
    if not found:
        raise JarsUnavailable(
            f"the Spark at {spark.home} carries no Ivy, which fetches the broker jars",
            hint="Install the `pyspark` package; `pyspark-client` does not suffice.",
        )
    return found[0]
