"""`isthmus link recover`: recover a follower that has diverged from its source."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.cli.several import each_shown
from isthmus.cli.steps import tell_step
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric, Recovering
from isthmus.model.links.recovery import Recovery, RecoveryStage, RecoveryWay, TopicRecovery
from isthmus.model.text.duration import parse_duration
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("partition", Cells.NUMBER),
    Column("last_shared", Cells.NUMBER),
    Column("source_begin", Cells.NUMBER, gives_way=1),
    Column("source_end", Cells.NUMBER),
    Column("target_begin", Cells.NUMBER, gives_way=1),
    Column("target_end", Cells.NUMBER),
    Column("only_at_target", Cells.NUMBER),
    Column("diverged"),
)
_GROUPS: Final = (
    Column("group", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("partition", Cells.NUMBER),
    Column("before", Cells.NUMBER),
    Column("after", Cells.NUMBER),
    Column("reason", Cells.PROSE, gives_way=1),
)


def recover(
    name: Annotated[
        list[str], typer.Argument(metavar="LINK", help="A link of the file or a declared one, or several.")
    ],
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Only this topic, whether it is known to have diverged or not; repeatable."),
    ] = None,
    way: Annotated[
        RecoveryWay | None,
        typer.Option(
            "--way",
            help="rebuild deletes a topic and has it filled again; mapped leaves it, and the link goes on behind "
            "its end. Else as it was begun, or rebuild.",
        ),
    ] = None,
    quarantine: Annotated[
        bool,
        typer.Option("--quarantine", help="With --way mapped: also set aside the records that only the target has."),
    ] = False,
    quiet: Annotated[str, typer.Option("--quiet", help="The required time without any write to the target.")] = "2s",
    timeout: Annotated[str, typer.Option("--timeout", help="How long any wait may take: 30s, 5m.")] = "1m",
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show where both sides part.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Bring topics of the target back that have diverged: out of FOREIGN_WRITE, DIVERGED, DATA_GAP, TOPIC_RECREATED.

    The source leads. Records that only the target has are written to a quarantine topic there and read back; then the
    topic is
    deleted, created again with the same configuration, and filled by the link. Consumer groups are put back where they
    stood, at most at the last shared offset. Interrupted anywhere it goes on when it is given again.

    With --way mapped the topic stays as it is: from the last shared offset on the source's records go behind its end,
    with other offsets. A later --way rebuild takes that back.

    Several links are recovered one after the other, each by itself; --topic is about all of them.
    """
    if quarantine and way is not RecoveryWay.MAPPED:
        raise ConfigError(
            "--quarantine goes with --way mapped", hint="A rebuilding sets these records aside in any case."
        )
    quiet_s, timeout_s = parse_duration(quiet), parse_duration(timeout)

    @cache
    def recoverer(one: str) -> Recovering:
        return (
            Fabric(load_with_declared(path, one))
            .link(one)
            .recoverer(
                topics or (), way=way, sets_aside=quarantine, quiet_s=quiet_s, timeout_s=timeout_s, on_step=tell_step
            )
        )

    asked = () if yes or dry_run else dict.fromkeys(name)
    healthy = {one: each for one in asked if (each := _confirm_recovery(one, recoverer(one)))}

    def work(one: str) -> Recovery:
        return healthy.get(one) or recoverer(one).recover(dry_run=dry_run)

    each_shown(name, output, work, lambda found: _show(found, output), plain)


def _confirm_recovery(name: str, recoverer: Recovering) -> Recovery | None:
    """Show the planned steps, and ask for confirmation; return the findings if nothing is to be done."""
    foreseen = recoverer.recover(dry_run=True)
    if all(each.stage is None or _has_gone_on(each) for each in foreseen.topics):
        return foreseen
    _show_table(foreseen)
    is_mapped = all(each.stage is None or each.way is RecoveryWay.MAPPED for each in foreseen.topics)
    confirm(name, f"have these topics {'go on with mapped offsets' if is_mapped else 'deleted and filled again'}")
    return None


def _show(found: Recovery, output: OutputFormat) -> None:
    if output.is_table:
        _show_table(found)
    else:
        render(plain(found), output, names=[each.topic for each in found.topics if each.stage])


def _show_table(found: Recovery) -> None:
    rows = [
        {"topic": topic.topic, **plain(each), "diverged": "yes" if each.has_diverged else "no"}
        for topic in found.topics
        for each in topic.partitions
    ]
    if rows:
        render(rows, OutputFormat.TABLE, columns=_COLUMNS)
    groups = [
        {**plain(each), "topic": topic.topic, "reason": each.reason or "-"}
        for topic in found.topics
        for each in topic.positions
    ]
    if groups:
        render(groups, OutputFormat.TABLE, columns=_GROUPS)
    for topic in found.topics:
        _tell(_describe_topic(topic, is_dry_run=found.is_dry_run))
    if not found.topics:
        _tell(f"link {found.link}: no topic has diverged, as far as the ends of both logs show (--topic compares all)")
    elif found.is_dry_run:
        _tell("nothing was changed")


def _has_gone_on(topic: TopicRecovery) -> bool:
    return topic.way is RecoveryWay.MAPPED and topic.stage is RecoveryStage.DONE


def _describe_topic(topic: TopicRecovery, *, is_dry_run: bool) -> str:
    if topic.stage is None:
        return f"{topic.topic}: the target has nothing that the source has not; it was left as it is"
    if topic.way is RecoveryWay.MAPPED:
        aside = f"; records that only it has are set aside in {topic.quarantine}" if topic.quarantine else ""
        verb = "would go on" if is_dry_run and not _has_gone_on(topic) else "goes on"
        return f"{topic.topic}: {verb} behind its end with mapped offsets{aside}"
    if is_dry_run:
        begun = "" if topic.stage is RecoveryStage.SETTING_ASIDE else f" (begun before: {topic.stage})"
        return f"{topic.topic}: would be set aside, deleted and filled again{begun}"
    if not topic.quarantined:
        return f"{topic.topic}: created again; the link fills it"
    return (
        f"{topic.topic}: created again; the link fills it. {format_count(topic.quarantined, 'record')} set aside in "
        f"{topic.quarantine} (isthmus quarantine list)"
    )


def _tell(text: str) -> None:
    console.print(Text(printable(text)))
