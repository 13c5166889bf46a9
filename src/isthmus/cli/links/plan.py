"""`isthmus plan`: the topics that would be created and copied, without doing it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.options import (
    ConfigOption,
    LinkArgument,
    LinkOption,
    OutputOption,
    VerboseOption,
    chosen_link,
)
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.saying import AWAITS_RELOAD
from isthmus.cli.setup.config import ask_fabric, load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.fabric.answers import LinkPlan, Plan, TopicPlan
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.links.pauses import told_of
from isthmus.model.links.transform import OnError, RecordPart, Transform, TransformWay
from isthmus.model.loop import Change
from isthmus.model.problem import Problem, join_alike
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import first_few, format_count, format_topic

CHANGES_PENDING = 3
_TOLD_MAX: Final = 10
_WAYS: Final = {
    TransformWay.PYTHON: "in the tasks that copy them, which takes milliseconds",
    TransformWay.SQL: "by Spark's SQL within the tasks that copy them, which takes some milliseconds",
}
_FAILURES: Final = {
    OnError.STOP: "stops its partition",
    OnError.SKIP: "is skipped, and counted",
    OnError.DEAD_LETTER: "becomes a dead letter",
}

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("action"),
    Column("mode", gives_way=3),
    Column("changed", gives_way=4),
    Column("aborted", gives_way=5),
    Column("partitions", Cells.NUMBER, gives_way=2),
    Column("refused"),
    Column("differences", Cells.NUMBER, gives_way=6),
    Column("records_to_copy", Cells.NUMBER),
    Column("offsets_to_fill", Cells.NUMBER, gives_way=1),
    Column("reasons", Cells.PROSE, gives_way=4),
)

app = typer.Typer(add_completion=False)


@app.command()
def plan(
    name: LinkArgument = None,
    path: ConfigOption = None,
    link: LinkOption = None,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode",
            help="Exit with 3 when something would be created or copied, with 0 when nothing would; 1 goes first.",
        ),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show what would be created and copied, topic by topic with mode and reasons.

    The ends of both logs are compared as a run does at its first look. Nothing is written.

    Exits with 1 when a link cannot be run, or some topics or partitions cannot be copied or looked at; when no link can
    be run, with the code of the first reason, as a run does.
    """
    link = chosen_link(name, link)
    found = ask_fabric(load_with_declared(path, link), lambda fabric: fabric.plan(link=link, with_spark=True))
    show_plan(found, output)
    if found.exit_code:
        raise typer.Exit(found.exit_code)
    if detailed_exitcode and found.has_changes:
        raise typer.Exit(CHANGES_PENDING)


def show_plan(plan: Plan, output: OutputFormat) -> None:
    """Show the plan on stdout; with a table, print notes on stderr."""
    if output.is_table:
        _show_table(plan, output)
    else:
        names = [f"{link.link}/{topic.topic}" for link in plan.links for topic in link.topics]
        render(plain(plan), output, names=names)
    if not output.has_problems:
        for link in plan.links:
            _tell(link)


def _show_table(plan: Plan, output: OutputFormat) -> None:
    silent = set() if any(topic.refused for link in plan.links for topic in link.topics) else {"refused"}
    silent |= set() if any(link.aborted for link in plan.links) else {"aborted"}
    rows = [row for link in plan.links for row in _rows(link)]
    silent |= {name for name in ("differences", "changed") if not any(row[name] for row in rows)}
    columns = [column for column in _COLUMNS if column.name not in silent]
    render(rows, output, columns=columns)


def _rows(link: LinkPlan) -> list[Row]:
    differences = Counter(change.subject for change in link.loop_changes if change.problem is None)
    return [
        {
            "link": link.link,
            "topic": format_topic(topic.source_topic, topic.topic),
            "action": str(topic.action),
            "mode": str(topic.mode),
            "changed": "" if topic.transform is None else str(topic.transform.way),
            "aborted": _aborted_policy(link, topic),
            "partitions": topic.partition_count,
            **_refused_row(topic),
            "differences": differences[f"topic {topic.topic}"],
            "records_to_copy": topic.lag_records,
            "offsets_to_fill": topic.prefix_offsets,
            "reasons": topic.reason,
        }
        for topic in link.topics
    ]


def _aborted_policy(link: LinkPlan, topic: TopicPlan) -> str:
    """Return the policy for aborted records: with mapped offsets they are never copied."""
    if link.aborted is None:
        return ""
    return str(AbortedPolicy.OMIT if topic.is_mapped else link.aborted.policy)


def _refused_row(topic: TopicPlan) -> Row:
    count = topic.partition_count
    refused = count if topic.reasons else len(topic.refused)
    return {"refused": f"{refused:,} of {format_count(count, 'partition')}"} if refused else {}


def _tell(link: LinkPlan) -> None:
    if link.problem is not None:
        _say("Error", link.link, link.problem, "red")
    for topic in link.topics:
        for problem in topic.reasons:
            _say("Refused", f"{link.link}/{topic.topic}", problem, "red")
        _tell_partitions("Refused", link, topic, [(p.partition, p.refusal) for p in topic.partitions], "red")
        _tell_partitions("Not examined", link, topic, [(p.partition, p.unexamined) for p in topic.partitions], "yellow")
        for problem in topic.notes:
            _say("Note", f"{link.link}/{topic.topic}", problem, "yellow")
    _tell_said(link)
    for pause in told_of(link.pauses):
        console.print(Text(printable(f"{link.link}: {pause}")))
    for problem in link.unmatched:
        _say("Warning", link.link, problem, "yellow")
    _tell_transforms(link)
    _tell_begins(link)
    _tell_transactions(link)
    _tell_changes(link)
    for problem in link.recommendations:
        _say("Recommended", link.link, problem, "yellow")
    for name in link.no_longer_mirrored:
        known = Problem("no longer mirrored: the link does not select it", f"isthmus forget {link.link} {name}")
        _say("Note", f"{link.link}/{name}", known, "yellow")


def _tell_transforms(link: LinkPlan) -> None:
    """Print how records are changed on the way, for all topics of a transform together."""
    changed: dict[str, tuple[Transform, list[str]]] = {}
    for topic in link.topics:
        if topic.transform is not None:
            changed.setdefault(topic.transform.digest, (topic.transform, []))[1].append(str(topic.source_topic))
    for transform, topics in changed.values():
        where = "" if transform.way is None else f", {_WAYS[transform.way]}"
        message = (
            f"{link.link}: records of {first_few(topics)} are changed on the way: {transform.described}{where}. "
            f"{_tell_schemas(transform, link)}"
            f"A record on which that fails {_FAILURES[transform.on_error]}. "
            f"isthmus transform try {link.link} --topic {topics[0]} shows it on records."
        )
        console.print(Text(printable(message)))
    for topic in link.topics:
        if (letters := topic.dead_letters) is not None:
            verb = "is created with" if not letters.partitions else "is enlarged to"
            how = f", which {verb} {format_count(letters.wanted, 'partition')}" if letters.has_changes else ""
            console.print(Text(printable(f"{link.link}/{topic.topic}: dead letters go to {letters.topic}{how}")))


def _tell_schemas(transform: Transform, link: LinkPlan) -> str:
    """Say by which schemas a transform decodes, with a space behind; "" if it needs none."""
    parts = [(part, transform.decoding(part)) for part in (RecordPart.KEY, RecordPart.VALUE)]
    said = [
        f"{part} is decoded as {each.format} by the subjects {', '.join(each.subjects) or f'TOPIC-{part}'}"
        for part, each in parts
        if each.format.has_schema
    ]
    return f"{' and '.join(said).capitalize()} of the schema registry of {link.source}. " if said else ""


def _tell_begins(link: LinkPlan) -> None:
    """Print from which offsets on records are changed otherwise than before."""
    for topic in link.topics:
        if topic.awaits_reload:
            console.print(Text(printable(f"{link.link}/{topic.topic}: {AWAITS_RELOAD}"), style="yellow"))
        elif topic.transform_begins:
            begins = topic.transform_begins
            places = first_few(f"partition {each.partition} from offset {each.source_offset} on" for each in begins)
            what = "copied as they are" if topic.transform is None else "changed by another transform than before"
            message = f"{link.link}/{topic.topic}: records are {what} in {places}; earlier ones stay as they were made"
            console.print(Text(printable(message)))


def _tell_transactions(link: LinkPlan) -> None:
    """Print how transactions are treated, why, and what would change it."""
    if link.aborted is not None:
        console.print(Text(printable(f"{link.link}: {link.aborted}. {link.aborted.advice}".rstrip())))
    if link.visibility is not None:
        console.print(Text(printable(f"{link.link}: {link.visibility}. {link.visibility.advice}".rstrip())))


def _tell_said(link: LinkPlan) -> None:
    """Print the filters and settings that operators have declared in place of the file's, and the authors."""
    filters, settings = link.filters, link.settings
    lists = (f"{name.replace('_', ' ')} {', '.join(texts) or 'nothing'}" for name, texts in filters.changed.items())
    values = (f"{key}={json.dumps(value)}" for key, value in settings.changed.items())
    for command, changed, each in (("filters", list(lists), filters), ("settings", list(values), settings)):
        if changed:
            by = f" by {each.by}" if each.by else ""
            since = f" at {written_instant(each.since_ms)}" if each.since_ms >= 0 else ""
            message = f"{link.link}: not as in the file: {'; '.join(changed)}; set{by}{since}"
            console.print(Text(printable(f"{message}. Take it back: isthmus {command} {link.link} --reset")))


def _tell_changes(link: LinkPlan) -> None:
    alike: dict[tuple[str, Problem], list[str]] = {}
    for change in link.loop_changes:
        if change.problem is None:
            console.print(Text(printable(f"{link.link}: {change.loop}: {_describe_change(change)}")))
        else:
            alike.setdefault((change.setting, change.problem), []).append(change.subject)
    for (setting, problem), (first, *others) in alike.items():
        more = f" and {len(others)} more" if others else ""
        _say("Not changed", f"{link.link}/{first}{more}: {setting}", problem, "yellow")


def _describe_change(change: Change) -> str:
    if change.after is None:
        return f"{change.subject}: {change.setting} is removed, which was {change.before}"
    if change.before is None and change.setting == "partitions":
        return f"{change.subject} is created, partitions: {change.after}"
    was = "not there" if change.before is None else change.before
    return f"{change.subject}: {change.setting} becomes {change.after}, which was {was}"


def _tell_partitions(
    kind: str, link: LinkPlan, topic: TopicPlan, problems: Iterable[tuple[int, Problem | None]], style: str
) -> None:
    joined = join_alike(problems)
    for where, problem in joined[:_TOLD_MAX]:
        _say(kind, f"{link.link}/{topic.topic}: {where}", problem, style)
    if len(joined) > _TOLD_MAX:
        console.print(Text(f"  and {len(joined) - _TOLD_MAX} more like these: -o json has them all", style=style))


def _say(kind: str, where: str, problem: Problem, style: str) -> None:
    console.print(Text(printable(f"{kind}: {where}: {problem.message}"), style=style))
    if problem.hint:
        console.print(Text(f"  {printable(problem.hint)}"))
