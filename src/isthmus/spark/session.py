"""Get a SparkSession that fits leases: an embedded one, one on a cluster, or an existing one."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet

from isthmus.errors import ConfigError, HostError, PlanRefused
from isthmus.local.java import Java, find_java
from isthmus.local.spark import find_spark
from isthmus.model.configuration import SparkSettings
from isthmus.model.process.sparkconf import DYNAMIC_ALLOCATION, SPECULATION, refuse_property
from isthmus.spark.messages import passing_on

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_STARTING: Final = threading.Lock()
_OURS: Final[WeakSet[SparkContext]] = WeakSet()
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
# The JVM of an embedded Spark only hands out tasks and passes bytes on: with the quick compiler and one collector it
# leaves the cores to Python, which does the work.
QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Java's regular expressions call themselves for each character that they repeat: this is enough for some 100,000 of
# them, and only what is used of a stack takes memory.
_DEEP_STACKS: Final = "-Xss64m"
# A task that lacks memory would leave the JVM behind it in doubt.
_MEMORY_EXIT: Final = "-XX:+ExitOnOutOfMemoryError"
_LOOPBACK: Final = "127.0.0.1"
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Leases run in Python workers that are reused; a cancelled one must not linger for seconds.
    "spark.python.worker.reuse": "true",
    "spark.python.task.killTimeout": "100ms",
    # A lease is never retried by Spark: the scheduler alone knows when another may write.
    "spark.task.maxFailures": "1",
    "spark.sql.session.timeZone": "UTC",
    # The data source reads fewer ranges where a query names partitions, offsets or times.
    "spark.sql.python.filterPushdown.enabled": "true",
    # For Spark's own configuration and plans; credentials of clusters never get there.
    "spark.redaction.regex": "(?i)secret|password|passwd|token|access[.]?key|credential|sasl|jaas",
}
_LINKS_NAMED: Final = 3
_LOCAL_CONF: Final = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    # A stack that overflows ends the task that does it, and not the JVM with all leases.
    "spark.executor.killOnFatalError.depth": "0",
    # On executors elsewhere a missing Isthmus shall fail in the task, which says so.
    "spark.python.daemon.module": "isthmus.spark.daemon",
}


def session(settings: SparkSettings, *, links: Sequence[str] = (), log: Path | None = None) -> SparkSession:
    """Return the session of this process, or create one as configured, as an application named after the links.

    An embedded one (`local[*]`) gets a task slot for each core, and one more where links need them all, so that no
    lease waits for another to end. Leases of several links share a slot. The stderr of its JVM and workers goes to the
    file `log`, otherwise to ours.

    :raises SparkMissing: There is no pyspark, or an unsuitable one.
    :raises JavaMissing: There is no Java 17 or newer.
    :raises ConfigError: `master` or `conf` cannot work.
    :raises HostError: Spark does not start.
    """
    find_spark()
    # A second thread would find half a context: it waits, and takes the session of the first.
    with _STARTING:
        return _session(settings, links, log)


def _session(settings: SparkSettings, links: Sequence[str], log: Path | None) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # The context is that of the process; active sessions are per thread.
    if SparkContext._active_spark_context is not None:
        return adopt_session(SparkSession.builder.getOrCreate(), settings)
    conf = conf_for(settings, links=links)
    java = find_java()
    if settings.master.startswith("local"):
        _share_python()
        archive = class_archive(java)
        if JVM_OPTIONS not in settings.conf and archive.exists():
            # The JVM ignores an archive that does not fit (any more) silently.
            conf[JVM_OPTIONS] += f" {archive_options('SharedArchiveFile', archive)}"
    os.environ["JAVA_HOME"] = str(java.executable.resolve().parent.parent)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        context = _launch(conf, log)
        if settings.master.startswith("local"):
            threading.Thread(target=_warm_up, args=[context], name="spark-warm-up", daemon=True).start()
        spark = SparkSession.builder.getOrCreate()
        _OURS.add(spark.sparkContext)
        if spark.sparkContext.uiWebUrl:
            _log.warning("Spark's UI: %s", spark.sparkContext.uiWebUrl)
    except Exception as error:
        raise HostError(
            f"Spark does not start: {_reason(error)}",
            hint="Look at its output" + (f" in {log}." if log else "; `isthmus doctor` checks Java and Spark."),
        ) from error
    finally:
        # Spark's own handler cancels all jobs at once; leases have to end in good order.
        _restore(interrupt)
    return spark


def stop(spark: SparkSession) -> None:
    """Stop a session that was started here; an adopted one goes on."""
    if spark.sparkContext in _OURS:
        # A JVM that got the same signal as this process has ended already.
        with contextlib.suppress(Exception):
            spark.stop()


def conf_for(settings: SparkSettings, *, links: Sequence[str] = ()) -> dict[str, str]:
    """Build the Spark configuration of a new application: the needs of leases, overridden by the operator's settings.

    :raises ConfigError: Leases cannot run with it.
    """
    for name, value in settings.conf.items():
        if (refusal := refuse_property(name, value)) is not None:
            raise ConfigError(f"{name}={value} {refusal.message}", field=f"spark.conf.{name}", hint=refusal.hint)
    conf = {**_CONF, "spark.app.name": _application(links), "spark.master": settings.master}
    if settings.master.startswith("local"):
        conf |= _LOCAL_CONF
        log_settings = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
        conf |= {JVM_OPTIONS: f"{QUICK_JVM} {_DEEP_STACKS} {_MEMORY_EXIT} {log_settings}"}
    if settings.master == "local[*]":
        cores = os.cpu_count() or 1
        slots = settings.slots or max(cores, min(len(links), cores) + 1)
        conf["spark.master"] = f"local[{max(slots, 2)}]"
    return {**conf, **settings.conf}


def _application(links: Sequence[str]) -> str:
    more = len(links) - _LINKS_NAMED
    named = ", ".join([*links[:_LINKS_NAMED], *([f"{more} more"] if more > 0 else [])])
    return f"isthmus {named}".rstrip()


def class_archive(java: Java) -> Path:
    """Return the path of the class archive of an embedded Spark (AppCDS), see `training`.

    It belongs to the environment: the JVM uses it only with the same jars that it was made from.
    """
    return Path(sys.prefix, "share", "isthmus", f"spark-{java.build.replace('/', '_')}.jsa")


def archive_options(flag: str, archive: Path) -> str:
    """Return the options of a JVM that reads or writes an archive, by `flag`, without messages about it."""
    return f'"-XX:{flag}={archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def adopt_session(spark: SparkSession, settings: SparkSettings) -> SparkSession:
    """Return a session that was created elsewhere, if leases can run in it.

    :raises PlanRefused: It would run tasks twice; or it adds executors as it needs them, and it is not configured how
        many slots leases may take.
    :raises HostError: It was stopped.
    """
    if spark.sparkContext._jsc is None:
        raise stopped_error()
    conf = spark.sparkContext.getConf()
    if refusal := refuse_property(SPECULATION, conf.get(SPECULATION) or ""):
        hint = f"Start the application with --conf {SPECULATION}=false."
        raise PlanRefused(f"{SPECULATION}=true {refusal.message}", hint=hint)
    is_dynamic = refuse_property(DYNAMIC_ALLOCATION, conf.get(DYNAMIC_ALLOCATION) or "")
    if is_dynamic and settings.slots is None and not is_embedded(spark.sparkContext):
        raise PlanRefused(
            f"{DYNAMIC_ALLOCATION}=true: leases would take every executor that other jobs of the session ask for, and "
            "keep it",
            hint="Set spark.slots: leases use no more of the slots that are there. Or start the application with "
            f"--conf {DYNAMIC_ALLOCATION}=false.",
        )
    return spark


def stopped_error() -> HostError:
    """Return the error of a session that its application has stopped."""
    return HostError(
        "the Spark session was stopped",
        hint="Run again in a new session: it goes on where it was. Stop a run before its session.",
    )


def slot_count(spark: SparkContext, settings: SparkSettings) -> int:
    """Wait for the first executor, and return how many tasks may run at once, as `offered_slots`."""
    if not is_embedded(spark):
        # Executors count only once they are there; a finished job proves that there is one.
        spark.setJobDescription("isthmus waits for the first executor")
        spark.parallelize([None], 1).count()
    return offered_slots(spark, settings)


def offered_slots(spark: SparkContext, settings: SparkSettings) -> int:
    """Return how many tasks may run at once on the current executors, at most as many as configured."""
    context = spark._jsc.sc()
    found: int = context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile())
    return max(min(found, settings.slots or found), 1)


def is_embedded(spark: SparkContext) -> bool:
    """Whether tasks run in the process of the driver, in threads."""
    return (spark.master or "").startswith("local") and not (spark.master or "").startswith("local-cluster")


def _share_python() -> None:
    """Have workers on this machine run the same Python and Isthmus as the driver, installed or not."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    here = str(Path(__file__).parents[2])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != here]
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *paths])
    # For the JVM that only composes the command of the other one.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK_JVM)


def _warm_up(context: SparkContext) -> None:
    """Have the Python daemon and a first worker started while clusters are still being asked for a plan.

    A lease that comes sooner waits for the daemon, which Spark starts once.
    """
    # A Spark that is stopped meanwhile needs no worker, and one that cannot run a task says so to the first lease.
    with contextlib.suppress(Exception):
        context.parallelize([None], 1).foreachPartition(_load_nothing)


def _load_nothing(_: Iterable[object]) -> None:
    """Do what a task has to: the worker is there, and has loaded what leases need."""


def _launch(conf: Mapping[str, str], log: Path | None) -> SparkContext:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    if SparkContext._gateway is not None:
        # Reuse a JVM that is there already.
        context: Any = SparkContext(conf=spark_conf)
    else:
        with passing_on() if log is None else log.open("ab") as output:
            gateway = launch_gateway(spark_conf, {"stdout": output, "stderr": output})
            context = SparkContext(conf=spark_conf, gateway=gateway)
    # It notices a dead JVM first, and would print a traceback; the error of a job reports that.
    context._accumulatorServer.handle_error = lambda *_: None
    return cast("SparkContext", context)


def _restore(handler: Callable[[int, FrameType | None], Any] | int | None) -> None:
    if threading.current_thread() is not threading.main_thread():
        # Python handles signals in the main thread alone, so Spark did not change them.
        return
    if handler is not None:
        signal.signal(signal.SIGINT, handler)


def _reason(error: Exception) -> str:
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    # Py4J's first line tells which call failed, the next one why.
    telling = [line for line in lines if "Exception:" in line or "Error:" in line]
    return (telling or lines or [type(error).__name__])[0]
