"""The command line of `python -m soak.gateway`."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from confluent_kafka import KafkaException

from isthmus.errors import IsthmusError
from soak.gateway.conditions import KINDS, Conditions, Ending
from soak.gateway.faults import FAULTS
from soak.gateway.planted import PLANTS
from soak.gateway.session import GatewayOutcome, GatewayRun, perform
from soak.gateway.stage import BROKERS, Grounds, grounds
from soak.results import append, violations_in_words

RESULTS: Final = Path(__file__).with_name("results.jsonl")
_END: Final = "<!-- new rows of gateways go above this line -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the runs that were asked for; 0 when everything held, 1 when something did not."""
    parser = argparse.ArgumentParser(prog="soak.gateway", description="Gateways under random faults, and a judge.")
    parser.add_argument("--seed", type=int, default=1, help="what everything follows from (default 1)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="so many seeds, from --seed on")
    parser.add_argument("--minutes", type=float, default=2.0, help="of faults, per seed (default 2)")
    plants = ", ".join(sorted(PLANTS))
    parser.add_argument(
        "--plant", default="", help=f"have gateways with these faults, which have to be found: {plants}"
    )
    parser.add_argument("--faults", default="", help="only these faults, by name: lanes frozen,link cut")
    parser.add_argument("--brokers", type=int, default=BROKERS, help=f"of each cluster (default {BROKERS})")
    parser.add_argument(
        "--ending", choices=list(get_args(Ending)), help="how the link is failed over, else by the seed"
    )
    parser.add_argument("--timeout-ms", type=int, help="of all clients, else by the seed")
    parser.add_argument("--out-of-sync", choices=["available", "consistent"], help="of the link, else by the seed")
    parser.add_argument("--folder", type=Path, help="where the folders of runs are made (default: the system's)")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a run in which everything held, too")
    parser.add_argument("--unrecorded", action="store_true", help="leave the results and the table as they are")
    parser.add_argument("--list", action="store_true", help="show all faults")
    given = parser.parse_args(arguments)
    if given.list:
        _say("\n".join(f"{each.name} ({each.group})" for each in FAULTS))
        return 0
    if set(_names(given.plant)) - set(PLANTS) or set(_names(given.faults)) - {each.name for each in FAULTS}:
        parser.error("there is no such fault: see --list and --help")
    # What a run has started ends with it, also when it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    outcomes: list[GatewayOutcome | None] = []
    _say("starting two clusters")
    with grounds(given.brokers) as found:
        for seed in range(given.seed, given.seed + given.seeds):
            outcomes.append(_one(given, seed, found))
    return 0 if all(each is not None and not each.violations for each in outcomes) else 1


def _one(given: argparse.Namespace, seed: int, found: Grounds) -> GatewayOutcome | None:
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    conditions = Conditions.of(seed)
    if given.out_of_sync:
        conditions = replace(conditions, out_of_sync=given.out_of_sync)
    if given.ending:
        conditions = replace(conditions, ending=given.ending)
    if given.timeout_ms:
        conditions = replace(conditions, timeouts_ms=tuple((kind.name, given.timeout_ms) for kind in KINDS))
    names = _names(given.faults)
    run = GatewayRun(
        seed=seed,
        minutes=given.minutes,
        conditions=conditions,
        faults=tuple(each for each in FAULTS if not names or each.name in names),
        folder=Path(tempfile.mkdtemp(prefix=f"isthmus-gateway-{seed}-", dir=given.folder)),
        plants=_names(given.plant),
    )
    try:
        outcome = perform(run, found, lambda text: _say(f"seed {seed}: {text}"))
    except (IsthmusError, KafkaException, OSError, RuntimeError, TimeoutError) as error:
        _say(f"seed {seed}: not done: {error} ({run.folder})")
        return None
    _tell(outcome)
    if not given.unrecorded:
        record(outcome)
    if not outcome.violations and not given.keep:
        shutil.rmtree(run.folder, ignore_errors=True)
    return outcome


def _names(given: str) -> tuple[str, ...]:
    return tuple(name for name in given.split(",") if name)


def _tell(outcome: GatewayOutcome) -> None:
    run = outcome.run
    answers = ", ".join(f"{client} {count:,}" for client, count in sorted(outcome.answers.items()))
    _say(f"seed {run.seed}: {answers}; {outcome.unasked} without a word of the follower; {_faults_of(outcome)}")
    for note in outcome.notes:
        _say(f"  {note}")
    for violation in outcome.violations:
        _say(f"  {violation}")
    _say(f"  {f'{len(outcome.violations)} violations: {run.folder}' if outcome.violations else 'everything held'}")


def record(outcome: GatewayOutcome) -> None:
    """Append a run to the results, and to the table.

    :raises OSError: One of them cannot be written.
    :raises ValueError: The page has lost the line above which new rows go.
    """
    append(outcome.as_dict(), row(outcome), results=RESULTS, above=_END)


def row(outcome: GatewayOutcome) -> str:
    """A row of the table."""
    run = outcome.run
    faults, violations = _faults_of(outcome), violations_in_words(outcome.violations)
    kind = [
        run.conditions.out_of_sync,
        run.conditions.visibility,
        run.conditions.ending,
        *([f"planted: {', '.join(run.plants)}"] if run.plants else []),
    ]
    answers = sum(outcome.answers.values())
    return f"| {run.seed} | {run.minutes:g} | {', '.join(kind)} | {faults} | {answers:,} | {violations} |"


def _faults_of(outcome: GatewayOutcome) -> str:
    return ", ".join(f"{name}\u00d7{count}" for name, count in sorted(outcome.faults.items())) or "none"


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201
