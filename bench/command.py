"""The command line: `python bench [--quick] [--case NAME]... [--contender NAME]... [--other CHECKOUT] [--repeat N]
[-o table|json]`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.cases import CASES, CHANGING, COPYING, OTHER, OWN, Case, TreeCase
from bench.copying import CopyFailed
from bench.report import OURS, as_json, document, print_table
from bench.session import measure
from isthmus.errors import IsthmusError

_REPETITIONS: Final = 3
_WARM_UPS: Final = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when every copy was complete, 1 when one was not: all others are printed as well."""
    parser = _parser()
    given = parser.parse_args(arguments)
    chosen = [case for case in CASES if not given.case or case.name in given.case]
    cases = [case.quick() for case in chosen] if given.quick else chosen
    if given.other is not None:
        if not (given.other / ".venv" / "bin" / "python").exists():
            parser.error(f"{given.other} has nothing installed: call make env there")
        cases = [_with_other(case) for case in cases]
    if given.contender:
        cases = [replace(case, contenders=_only(given.contender, case.contenders)) for case in cases]
        cases = [case for case in cases if case.contenders]
        if not cases:
            parser.error("none of these contenders takes part in these cases")
    repetitions = given.repeat or (1 if given.quick else _REPETITIONS)
    try:
        outcomes = measure(cases, repetitions, _note, warm_ups=1 if given.quick else _WARM_UPS, other=given.other)
    except (CopyFailed, IsthmusError) as error:
        _note(f"bench: {error}")
        return 1
    result = document(outcomes, shlex.join(["python", "bench", *(arguments or sys.argv[1:])]))
    if given.output == "json":
        print(as_json(result))  # noqa: T201
    else:
        print_table(result)
    failed = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failed:
        _note(f"bench: {outcome.case.name}: {outcome.failure}")
    return 1 if failed else 0


def _with_other(case: Case) -> Case:
    if isinstance(case, TreeCase) or OURS not in case.contenders:
        return case
    return replace(case, contenders=(*case.contenders, OTHER))


def _only(wanted: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in wanted)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Isthmus side by side with MirrorMaker 2.")
    parser.add_argument("--quick", action="store_true", help="small sizes, once: shows that all works, proves nothing")
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES], help="only this case (may be repeated)"
    )
    parser.add_argument(
        "--contender",
        action="append",
        choices=(*COPYING, *OWN, *CHANGING, OTHER),
        help="only this one (may be repeated)",
    )
    parser.add_argument(
        "--other", type=Path, metavar="CHECKOUT", help="another checkout of Isthmus, after make env, takes part as well"
    )
    parser.add_argument("--repeat", type=int, metavar="N", help=f"how often (default {_REPETITIONS}, with --quick 1)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser
