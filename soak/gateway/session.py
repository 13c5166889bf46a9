"""One run with gateways: a synchronous link, clients, faults, a failover, and the judge's verdict."""

from __future__ import annotations

import json
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import NewTopic

from isthmus.model.text.plain import plain
from soak.findings import tracebacks
from soak.gateway.client import PARTITIONS
from soak.gateway.conditions import KINDS, Conditions
from soak.gateway.faults import FAULTS, GatewayFault, bout
from soak.gateway.judge import Answered, Committed, Record, Trial, answers_of, judged, words_of
from soak.gateway.ledger import LedgerWatch
from soak.gateway.stage import GATEWAYS, GatewayProcess, Grounds, Stage
from soak.history import History, read_history
from soak.judge.evidence import Violation
from soak.judge.reading import messages
from soak.mirrors.isthmus import Isthmus
from soak.mirrors.mirror import Supervisor
from testing.brokers.proxy import Weather

Note = Callable[[str], None]
_READY_S: Final = 600.0
_RUN_LEFT: Final = "lanes have not ended"
_CALM_S: Final = 180.0
_AGAIN_S: Final = 2.0
_WRITE_S: Final = 5.0
_STOP_S: Final = 60.0
_ADMIN_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRun:
    """What is to be done, in a folder of the run's own. `plants` are faults that are put into the gateways."""

    seed: int
    minutes: float
    conditions: Conditions
    folder: Path
    faults: Sequence[GatewayFault] = FAULTS
    plants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOutcome:
    """What came of it. `answers` counts what clients were told, by client; of `unasked` the follower did not tell."""

    run: GatewayRun
    answers: Mapping[str, int]
    unasked: int
    faults: Mapping[str, int]
    violations: tuple[Violation, ...]
    seconds: float
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """One line of the results."""
        return {
            "seed": self.run.seed,
            "minutes": self.run.minutes,
            "contender": "gateway",
            "plants": self.run.plants,
            "faults": dict(self.faults),
            "answers": dict(self.answers),
            "unasked": self.unasked,
            "seconds": round(self.seconds),
            "conditions": plain(self.run.conditions),
            "violations": [str(violation) for violation in self.violations],
            "notes": list(self.notes),
        }


def perform(run: GatewayRun, grounds: Grounds, note: Note) -> GatewayOutcome:
    """Do a run and judge it; `note` hears what is going on.

    :raises RuntimeError: A command was refused.
    :raises TimeoutError: The link never began, or never was in sync.
    """
    begun, chance, counts = time.monotonic(), random.Random(f"faults {run.seed}"), Counter[str]()
    late: list[Violation] = []
    with History(run.folder / "history.jsonl") as history, _staged(run, grounds, history) as stage:
        history.tell("run", seed=run.seed, minutes=run.minutes, plants=run.plants, conditions=plain(run.conditions))
        note("waiting for the link to be in sync")
        _synchronize(stage, run.seed)
        in_force = time.time()
        history.tell("in force")
        late += _await_calm(stage)
        note("faults")
        over = time.monotonic() + run.minutes * 60
        while time.monotonic() < over:
            _break(stage, bout(run.faults, chance), chance, counts)
            late += _await_calm(stage)
        note("failover")
        failed_over, given_up = _fail_over(stage, chance)
        note("judging")
        trial, files = _trial(stage, in_force, failed_over, given_up)
        tracebacks(run.folder, history)
        events = read_history(run.folder / "history.jsonl")
        bugs = [
            Violation(invariant="G9 no bug", where=event["file"], message=event["said"])
            for event in events
            if event["kind"] == "traceback"
        ]
        violations = (*judged(trial), *late, *bugs)
        history.tell("verdict", violations=[str(violation) for violation in violations])
    return GatewayOutcome(
        run=run,
        answers=Counter([each.client for each in trial.answered] + [each.client for each in trial.committed]),
        unasked=sum(not each.highs for each in trial.answered),
        faults=counts,
        violations=violations,
        seconds=time.monotonic() - begun,
        notes=tuple(files),
    )


@contextmanager
def _staged(run: GatewayRun, grounds: Grounds, history: History) -> Iterator[Stage]:
    """The link, who copies, both gateways and all clients; whatever happens they are gone when the block ends."""
    link = f"s{run.seed}x{secrets.token_hex(3)}"
    topic = f"{link}.orders"
    replicas = grounds.brokers
    new = NewTopic(topic, PARTITIONS, replicas, config={"min.insync.replicas": str(max(replicas - 1, 1))})
    grounds.admins["source"].create_topics([new])[topic].result(_ADMIN_S)
    mirrors = {}
    for who in ("run", "operator"):
        (run.folder / who).mkdir()
        mirrors[who] = Isthmus(run.folder / who, grounds.configuration(who), is_mapped=False)
    gateways = {name: GatewayProcess(name, run.folder, grounds.configuration(name), run.plants) for name in GATEWAYS}
    supervisor = Supervisor(mirrors["run"], history)
    stage = Stage(
        link=link,
        topic=topic,
        folder=run.folder,
        grounds=grounds,
        conditions=run.conditions,
        history=history,
        supervisor=supervisor,
        operator=mirrors["operator"],
        gateways=gateways,
        watch=LedgerWatch(grounds.servers("source"), link, history),
    )
    conditions = run.conditions
    stage.call(
        "link", "create", link, "--source", "source", "--target", "target", "--map", f"{link}.:{link}.",
        "--group-map", f"{link}.:{link}.", "--enforce", "--super-user",
        "--set", f"transactions.visibility={conditions.visibility}",
        "--set", f"sync.lag_max_ms={conditions.lag_max_ms}", "--set", f"sync.out_of_sync={conditions.out_of_sync}",
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(stage.watch)
        stack.callback(stage.operator.call, "link", "delete", link, "--yes")
        stack.enter_context(supervisor.keeping(_STOP_S))
        for gateway in gateways.values():
            stack.callback(gateway.end, signal.SIGTERM)
            gateway.start()
        stack.callback(stage.end_clients, _WRITE_S)
        yield stage


def _synchronize(stage: Stage, seed: int) -> None:
    """Have the link be synchronous, and clients write while it is not in sync yet."""
    for gateway in stage.gateways.values():
        stage.until(gateway.is_listening, f"{gateway.name} listens", _READY_S)
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            stage.call("link", "update", stage.link, "--mode", "sync")
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_S)
        else:
            break
    for kind in KINDS:
        stage.start_client(kind, seed)
    stage.until(stage.is_in_sync, "the link is in sync", _READY_S)


def _break(stage: Stage, faults: Sequence[GatewayFault], chance: random.Random, counts: Counter[str]) -> None:
    """Do these faults at once, one a little after the other, and undo them."""
    with ExitStack() as stack:
        for fault in faults:
            told = stack.enter_context(fault.begin(stage, chance))
            counts[fault.name] += 1
            stage.history.tell("fault", name=fault.name, **told)
            time.sleep(chance.uniform(0.0, 2.0))
        time.sleep(max(chance.uniform(*fault.lasts_s) for fault in faults))
        stage.history.tell("healing")
    stage.history.tell("healed")


def _await_calm(stage: Stage) -> list[Violation]:
    """Wait until the link is in sync again, as it has to be by itself, and all who write are answered again."""
    begun, told = time.monotonic(), _told(stage)

    def is_in_sync() -> bool:
        for gateway in stage.gateways.values():
            # One that found no cluster when it began has ended, and is begun again, as a service manager does.
            gateway.start()
        return stage.is_in_sync()

    try:
        stage.until(is_in_sync, "the link is in sync again", _CALM_S)
    except TimeoutError:
        said = {key.rpartition("/")[2]: word["state"] for key, word in stage.watch.words.items()}
        stage.history.tell("not in sync", said=said)
        where = f"after {time.monotonic() - begun:.0f} s"
        return [Violation(invariant="G8 back in sync", where=where, message=f"all is undone, and gateways say {said}")]
    stage.history.tell("in sync", after=round(time.monotonic() - begun, 1))
    silent: list[str] = []

    def is_answered() -> bool:
        now = _told(stage)
        silent[:] = [name for name, count in now.items() if count == told[name]]
        return not silent

    try:
        stage.until(is_answered, "all who write are answered again", _CALM_S)
    except TimeoutError:
        message = f"all is undone, and nobody answers {', '.join(silent)}"
        return [Violation(invariant="G8 back in sync", where=f"after {_CALM_S:g} s more", message=message)]
    stage.history.tell("answered", after=round(time.monotonic() - begun, 1))
    return []


def _told(stage: Stage) -> dict[str, int]:
    """How often everybody who writes without transactions was answered."""
    return {
        kind.name: stage.client_log(kind).read_text(encoding="utf-8").count('"kind": "ack"')
        if stage.client_log(kind).exists()
        else 0
        for kind in KINDS
        if kind.style in ("plain", "idempotent")
    }


def _fail_over(stage: Stage, chance: random.Random) -> tuple[float, dict[int, int] | None]:
    """End as the conditions say. When the source was lost, and what the command says may be missing."""
    conditions = stage.conditions
    with ExitStack() as stack:
        if conditions.ending == "calm":
            stage.end_clients(_STOP_S)
            stage.until(stage.is_in_sync, "the link is in sync at the end", _CALM_S)
            failed_over = time.time()
        else:
            if conditions.ending == "behind":
                for network in stage.networks("run", "target"):
                    stack.enter_context(network.weather(Weather.CUT))
                time.sleep(conditions.behind_s)
            failed_over = time.time()
            stage.history.tell("source lost")
            for who in ("run", "operator", *GATEWAYS):
                for network in stage.networks(who, "source"):
                    stack.enter_context(network.weather(Weather.CUT))
            time.sleep(_WRITE_S)
            stage.end_clients(_WRITE_S)
        if chance.random() < 0.5:
            for gateway in stage.gateways.values():
                gateway.end(signal.SIGKILL)
        command = ("link", "failover", stage.link, "--yes", "--leave-clients", "-o", "json")
        try:
            said = stage.call(*command)
        except RuntimeError as error:
            if _RUN_LEFT not in str(error):
                raise
            # A run that lives on this host and hears nothing is its operator's to end, as the command says.
            stage.history.tell("run ended by hand")
            stage.supervisor.is_wanted = False
            stage.supervisor.kill()
            said = stage.call(*command)
    return failed_over, _given_up(json.loads(said), stage.topic)


def _given_up(said: Any, topic: str) -> dict[int, int] | None:
    """What a failover says may be missing of what was acknowledged, `None` where it does not know."""
    found = said[0] if isinstance(said, list) else said
    partitions = (found.get("acknowledged") or {}).get("partitions")
    if partitions is None:
        return None
    return {each["partition"]: each["offset"] for each in partitions if each["topic"] == topic}


def _trial(
    stage: Stage, in_force: float, failed_over: float, given_up: dict[int, int] | None
) -> tuple[Trial, list[str]]:
    answered, committed, aborted = list[Answered](), list[Committed](), set[str]()
    errors = Counter[str]()
    for kind in KINDS:
        events = read_history(stage.client_log(kind)) if stage.client_log(kind).exists() else []
        told, positions, undone = answers_of(kind.name, events)
        answered += told
        committed += positions
        aborted |= undone
        errors.update(f"{kind.name}: {event['said']}" for event in events if event["kind"] == "error")
    trial = Trial(
        is_consistent=stage.conditions.is_consistent,
        in_force=in_force,
        failed_over=failed_over,
        answered=answered,
        committed=committed,
        words=words_of(read_history(stage.history.file)),
        given_up=given_up,
        aborted=frozenset(aborted),
        exact=frozenset(kind.name for kind in KINDS if kind.is_exact),
        source=_log(stage, "source"),
        target=_log(stage, "target"),
        producers=frozenset(_producers(stage)),
    )
    return trial, sorted(errors)


def _log(stage: Stage, side: str) -> dict[int, list[Record]]:
    """What is in the topic, on one side."""
    servers, keys = stage.grounds.servers(side), [(stage.topic, each) for each in range(PARTITIONS)]
    visible = {(each.partition() or 0, each.offset() or 0) for each in messages(servers, keys, "read_committed")}
    found: dict[int, list[Record]] = {each: [] for each in range(PARTITIONS)}
    for each in messages(servers, keys, "read_uncommitted"):
        partition, offset = each.partition() or 0, each.offset() or 0
        identity = (each.value() or b"").decode(errors="replace")
        found[partition].append(Record(offset, identity, (partition, offset) in visible))
    return found


def _producers(stage: Stage) -> list[int]:
    """The ids without transactions that the source's leaders know."""
    arguments = (stage.grounds.servers("source"), stage.topic, str(PARTITIONS))
    found: list[int] = json.loads(stage.helper("producers", *arguments))
    return found
