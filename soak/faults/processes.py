"""The mirror's own processes die, stand still, are doubled or have wrong clocks: rows 21 to 26."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from isthmus.local.process import Process
from soak.faults.catalogue import CHANGING, EVERYBODY, ISTHMUS, TREE, NotNow, Told, fault
from soak.faults.finding import some_broker
from soak.mirrors.isthmus import Isthmus
from soak.mirrors.program import Program
from soak.scene import TERM_S, Scene, Setting
from soak.side import Side

OURS: Final = ISTHMUS | CHANGING | TREE
_RIVAL_S: Final = 180.0
_FAKETIME: Final = (
    Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"),
)


def _is_worker(line: str) -> bool:
    return "spark.daemon pyspark." in line or "pyspark.worker" in line


def _is_jvm(line: str) -> bool:
    return "SparkSubmit" in line


@fault(21, "mirror", lasts_s=(1.0, 20.0), mirrors=EVERYBODY | TREE)
def driver_killed(scene: Setting, chance: random.Random) -> Iterator[Told]:
    """The process of the mirror is killed, at any moment; it is started again at once, or later."""
    is_at_once = chance.random() < 0.5
    scene.supervisor.is_wanted = is_at_once
    try:
        scene.supervisor.kill()
        yield {"again": "at once" if is_at_once else "later"}
    finally:
        scene.supervisor.is_wanted = True


@fault(21, "mirror", lasts_s=(1.0, 10.0), mirrors=EVERYBODY | TREE)
def driver_stopped(scene: Setting, chance: random.Random) -> Iterator[Told]:
    """The mirror is told to end, in good order, and started again later."""
    scene.supervisor.is_wanted = False
    try:
        scene.supervisor.terminate(chance.choice((signal.SIGTERM, signal.SIGINT)))
        yield {}
    finally:
        scene.supervisor.is_wanted = True


@fault(21, "mirror", lasts_s=(3.0, 30.0), mirrors=EVERYBODY | TREE)
def driver_frozen(scene: Setting, _chance: random.Random) -> Iterator[Told]:
    """The process of the mirror stands still, and goes on."""
    driver = Process.with_pid(scene.supervisor.mirror.pid)
    # Its command line tells nothing: it may be a fork of whoever keeps some ready.
    frozen = [] if driver is None else [driver]
    _signal(frozen, signal.SIGSTOP)
    yield from _standing(frozen)


@fault(22, "mirror", mirrors=OURS)
def workers_killed(scene: Setting, _chance: random.Random) -> Iterator[Told]:
    """Spark's Python workers are killed."""
    yield {"killed": len(_some(scene.supervisor.signal_all(signal.SIGKILL, _is_worker)))}


@fault(22, "mirror", mirrors=OURS)
def jvm_killed(scene: Setting, _chance: random.Random) -> Iterator[Told]:
    """The JVM of Spark's driver, which holds its executors too, is killed."""
    yield {"killed": len(_some(scene.supervisor.signal_all(signal.SIGKILL, _is_jvm)))}


@fault(23, "mirror", lasts_s=(5.0, 45.0), mirrors=OURS)
def workers_frozen(scene: Setting, _chance: random.Random) -> Iterator[Told]:
    """Spark's Python workers stand still, maybe for so long that others replace them, and go on."""
    yield from _frozen(scene, _is_worker)


@fault(23, "mirror", lasts_s=(5.0, 45.0), mirrors=OURS)
def jvm_frozen(scene: Setting, _chance: random.Random) -> Iterator[Told]:
    """Spark's JVM stands still, maybe for so long that its tasks are revoked, and goes on."""
    yield from _frozen(scene, _is_jvm)


@fault(24, lasts_s=(1.0, 2.0), mirrors=ISTHMUS)
def speculation_asked_for(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Somebody starts a run whose Spark would execute every task twice: it has to refuse, and leave all else alone."""
    mirror = _isthmus(scene)
    document = yaml.safe_load(mirror.configuration.read_text())
    document["spark"]["conf"] = {"spark.speculation": "true"}
    changed = mirror.configuration.with_name(f"speculation-{chance.randrange(1 << 20):05x}.yaml")
    changed.write_text(yaml.safe_dump(document))
    driver = mirror.launch(changed.stem, changed)
    try:
        code = driver.wait(term_s=_RIVAL_S)
        scene.history.tell("refusal", of="speculation", code=code, said=driver.said[-400:])
    finally:
        driver.end()
    yield {"code": code}


@fault(25, "mirror", lasts_s=(10.0, 25.0), mirrors=OURS)
def second_driver(scene: Setting, chance: random.Random) -> Iterator[Told]:
    """A second run of the same link is started; both have their supervisors, one has to give way."""
    with _rival(scene, chance) as rival:
        yield {"rival": rival}


@fault(25, "mirror", lasts_s=(10.0, 25.0), mirrors=OURS)
def frozen_driver_meets_its_successor(scene: Setting, chance: random.Random) -> Iterator[Told]:
    """All of a run stands still until another has taken over, and goes on then."""
    frozen = _some(scene.supervisor.signal_all(signal.SIGSTOP))
    try:
        with _rival(scene, chance) as rival:
            before = scene.copied_all()
            scene.until(lambda: scene.copied_all() > before, "the second run copies", term_s=_RIVAL_S)
            _signal(frozen, signal.SIGCONT)
            yield {"rival": rival}
    finally:
        _signal(frozen, signal.SIGCONT)


@fault(26, "mirror", lasts_s=(10.0, 25.0), mirrors=EVERYBODY | TREE)
def mirror_clock_wrong(scene: Setting, chance: random.Random) -> Iterator[Told]:
    """The mirror is restarted with a clock an hour ahead or behind, and later with the right one."""
    skew = chance.choice(("+1h", "-1h"))
    scene.supervisor.environment = _clock(skew)
    scene.supervisor.terminate(signal.SIGTERM)
    try:
        yield {"skew": skew}
    finally:
        scene.supervisor.environment = {}
    scene.supervisor.terminate(signal.SIGTERM)


@fault(26, "target brokers", lasts_s=(10.0, 25.0))
def target_clock_wrong(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the target is restarted with a clock an hour ahead or behind, and later with the right one."""
    yield from _broker_clock(scene.target, chance)


@fault(26, "source brokers", lasts_s=(10.0, 25.0))
def source_clock_wrong(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the source is restarted with a clock an hour ahead or behind, and later with the right one."""
    yield from _broker_clock(scene.source, chance)


def _broker_clock(side: Side, chance: random.Random) -> Iterator[Told]:
    broker, skew = some_broker(side, chance), chance.choice(("+1h", "-1h"))
    clock = _clock(skew)
    broker.terminate()
    before = {name: os.environ.get(name) for name in clock}
    # A broker inherits what this process has; nothing else is started in these milliseconds that would mind.
    os.environ.update(clock)
    try:
        broker.start(wait=False)
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
    yield {"broker": broker.node_id, "skew": skew}
    broker.terminate()
    broker.start(wait=False)


def _clock(skew: str) -> dict[str, str]:
    library = next((file for file in _FAKETIME if file.exists()), None)
    if library is None:
        raise NotNow("libfaketime is not installed (Debian's package libfaketime)")
    # Only the calendar is wrong: time that passes is measured as it is, on every machine.
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": skew,
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _frozen(scene: Setting, chosen: Callable[[str], bool]) -> Iterator[Told]:
    yield from _standing(scene.supervisor.signal_all(signal.SIGSTOP, chosen))


def _standing(frozen: list[Process]) -> Iterator[Told]:
    """What was stopped, if anything was, goes on in the end."""
    try:
        yield {"frozen": len(_some(frozen))}
    finally:
        _signal(frozen, signal.SIGCONT)


@contextmanager
def _rival(scene: Setting, chance: random.Random) -> Iterator[str]:
    label = f"rival-{chance.randrange(1 << 20):05x}"
    program = scene.supervisor.mirror
    if not isinstance(program, Program):
        raise NotNow("only Isthmus is started twice")
    driver = program.launch(label)
    scene.history.tell("mirror", did="rival started", label=label)
    try:
        yield label
    finally:
        ended = driver.process.poll()
        if ended is None:
            driver.process.send_signal(signal.SIGTERM)
            driver.wait(term_s=TERM_S)
        scene.history.tell("mirror", did="rival ended", label=label, code=driver.process.poll(), by_itself=ended)
        driver.end()


def _isthmus(scene: Setting) -> Isthmus:
    mirror = scene.supervisor.mirror
    if not isinstance(mirror, Isthmus):
        raise NotNow("only Isthmus has such processes")
    return mirror


def _some(processes: list[Process]) -> list[Process]:
    if not processes:
        raise NotNow("there is no such process now")
    return processes


def _signal(processes: list[Process], number: signal.Signals) -> None:
    for process in processes:
        process.send(number)
