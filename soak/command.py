"""The command line of `python -m soak`."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from isthmus.errors import IsthmusError
from soak import results
from soak.conditions import Conditions
from soak.faults import FAULTS
from soak.faults.catalogue import CONTENDERS, Fault
from soak.naming import TARGET_PREFIXES
from soak.report import print_outcome, print_rows, print_shortest
from soak.run import Outcome, Run
from soak.schedule import Schedule, drawn, read_schedule
from soak.session import perform
from soak.shown import Shown
from soak.shrinking import shrink

_MINUTES: Final = 4.0
_TRIES: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the runs that were asked for; 0 when everything held, 1 when something did not."""
    parser = _parser()
    given = parser.parse_args(arguments)
    # What a run has started ends with it, also when it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if given.list:
        print_rows()
        return 0
    if not given.schedule and not _chosen(given):
        parser.error("there is no such fault, or none that can be done to this contender: see --list")
    try:
        if given.shrink:
            with Shown(1, given.minutes) as shown:
                shown.begin()
                print_shortest(shrink(given.shrink, shown.note, tries=given.tries))
            return 0
        return _soak(given)
    except (IsthmusError, OSError, TimeoutError, ValueError) as error:
        print(f"soak: {error}", file=sys.stderr)  # noqa: T201
        return 1


def _soak(given: argparse.Namespace) -> int:
    outcomes: list[Outcome] = []
    with Shown(given.seeds, given.minutes) as shown:
        for seed in range(given.seed, given.seed + given.seeds):
            shown.begin()
            outcomes.append(_one(given, seed, shown))
    return 1 if any(outcome.violations for outcome in outcomes) else 0


def _one(given: argparse.Namespace, seed: int, shown: Shown) -> Outcome:
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"isthmus-soak-{seed}-", dir=given.folder))
    run = Run(
        seed=seed,
        minutes=given.minutes,
        contender=given.contender,
        schedule=_schedule(given, seed),
        conditions=_conditions(given, seed),
        folder=folder,
        is_whole=given.schedule is not None,
    )
    outcome = perform(run, shown.note)
    print_outcome(outcome)
    if not given.unrecorded:
        results.record(outcome)
    if outcome.violations and given.shorten:
        print_shortest(shrink(run.history, shown.note, tries=given.tries))
    if not outcome.violations and not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _conditions(given: argparse.Namespace, seed: int) -> Conditions:
    """Those of the seed, as far as they are not given, and the contender can be made to do them."""
    conditions = Conditions.of(seed)
    wanted = replace(
        conditions,
        offsets=given.offsets or conditions.offsets,
        naming=given.naming or conditions.naming,
        cutover=given.cutover,
    )
    return wanted.suited_to(given.contender)


def _schedule(given: argparse.Namespace, seed: int) -> Schedule:
    return read_schedule(given.schedule) if given.schedule else drawn(seed, given.minutes, _chosen(given))


def _chosen(given: argparse.Namespace) -> list[Fault]:
    """The faults a schedule is drawn from."""
    rows = {int(row) for row in given.rows.split(",") if row}
    names = {name for name in given.faults.split(",") if name}
    return [
        fault
        for fault in FAULTS.values()
        if given.contender in fault.mirrors and (not rows or fault.row in rows) and (not names or fault.name in names)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="soak", description="Random faults on real clusters, and a judge.")
    parser.add_argument("--seed", type=int, default=1, help="what everything follows from (default 1)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="so many seeds, from --seed on")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help=f"of faults, per seed (default {_MINUTES:g})")
    parser.add_argument("--contender", choices=sorted(CONTENDERS), default="isthmus", help="who copies")
    parser.add_argument("--rows", default="", help="only faults of these rows of docs/reliability.md: 1,5,16")
    parser.add_argument("--faults", default="", help="only these faults: driver-killed,target-cut-off")
    parser.add_argument(
        "--offsets", choices=["same", "mapped"], help="of the link (default: what follows from the seed)"
    )
    parser.add_argument(
        "--naming", choices=list(TARGET_PREFIXES), help="of topics (default: what follows from the seed)"
    )
    parser.add_argument(
        "--cutover",
        choices=["promote", "failover"],
        help="run a second link, a declared one, that ends so (default: none)",
    )
    parser.add_argument("--list", action="store_true", help="show all faults, and the rows that cannot be done")
    parser.add_argument("--schedule", type=Path, metavar="FILE", help="do this schedule, whole, instead of drawing one")
    parser.add_argument("--shrink", type=Path, metavar="HISTORY", help="find the shortest schedule that still violates")
    parser.add_argument(
        "--shorten", action="store_true", help="find it at once, after each run in which something did not hold"
    )
    parser.add_argument(
        "--tries", type=int, default=_TRIES, help=f"how often that is tried without an action (default {_TRIES})"
    )
    parser.add_argument("--folder", type=Path, help="where the folders of runs are made (default: the system's)")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a run in which everything held, too")
    parser.add_argument("--unrecorded", action="store_true", help="leave the results and the table as they are")
    return parser
