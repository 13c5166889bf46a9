"""How a plan is shown: a row for each topic, and on stderr what is to be known of its partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.cli.links.plan import show_plan
from isthmus.cli.output import OutputFormat
from isthmus.memory.filtering import Filters
from isthmus.memory.livesettings import LiveSettings
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.lane import LaneState
from isthmus.model.loop import Change
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.plain import plain
from isthmus.topics.aborted import Abilities, treatment
from isthmus.topics.plan import Action, LinkPlan, Plan, TopicPlan
from isthmus.topics.preflight import PartitionDecision

FOREIGN = Problem("somebody wrote", "look who")


def decision(partition: int, refusal: Problem | None = None, unexamined: Problem | None = None) -> PartitionDecision:
    """A partition of which nothing is to be copied."""
    state = LaneState.ACTIVE if refusal is None else LaneState.FOREIGN_WRITE
    return PartitionDecision(
        partition=partition, source=None, target_end=0, refusal=refusal, state=state, unexamined=unexamined
    )


def shown(capsys: pytest.CaptureFixture[str], link: LinkPlan) -> tuple[str, str]:
    """What is printed of a link, as one line each."""
    show_plan(Plan(links=(link,)), OutputFormat.TABLE)
    printed = capsys.readouterr()
    return " ".join(printed.out.split()), " ".join(printed.err.split())


def link_of(*partitions: PartitionDecision, unmatched: tuple[Problem, ...] = ()) -> LinkPlan:
    """A link with one topic."""
    topic = TopicPlan(
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        action=Action.COPY,
        partition_count=len(partitions),
        partitions=partitions,
    )
    return LinkPlan(link="l", source="east", target="west", topics=(topic,), unmatched=unmatched)


def test_rows_say_how_many_partitions_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The row of a topic that is copied in part says so, with the first reason; all reasons are on stderr."""
    other = Problem("another one", "")
    out, err = shown(capsys, link_of(decision(0), decision(1, FOREIGN), decision(2), decision(3, other)))
    assert "copy identity 4 2 of 4 partitions 0 0 partition 1: somebody wrote; and 1 more" in out
    assert "Refused: l/orders: partition 1: somebody wrote look who" in err
    assert "Refused: l/orders: partition 3: another one" in err


def test_names_alone_say_nothing_of_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    """So they are told on stderr, as beside a table; JSON has them."""
    plan = Plan(links=(link_of(decision(0, FOREIGN)),))
    for output, is_told in ((OutputFormat.NAME, True), (OutputFormat.JSON, False)):
        show_plan(plan, output)
        assert ("somebody wrote" in capsys.readouterr().err) is is_told


def test_what_an_operator_selects_is_told_with_who_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    """In place of what the file says, on stderr; an older release did not write down who it was."""
    chosen = Filters(
        topics_include=("a.*", "b"),
        groups_exclude=(),
        configs_exclude=("flush.*",),
        since_ms=1_700_000_000_000,
        by="ada@host",
    )
    _, err = shown(capsys, replace(link_of(), filters=chosen))
    told = (
        "l: not as in the file: topics include a.*, b; groups exclude nothing; configs exclude flush.*; "
        "set by ada@host at 2023-11-14T22:13:20"
    )
    assert told in err
    assert "Take it back: isthmus filters l --reset" in err
    _, err = shown(capsys, replace(link_of(), filters=replace(chosen, by="")))
    assert "configs exclude flush.*; set at 2023-11-14T22:13:20" in err
    _, err = shown(capsys, link_of())
    assert "not as in the file" not in err


def test_what_an_operator_has_set_is_told_with_who_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    """In place of what the file says, on stderr, and under `settings` of the answer."""
    chosen = LiveSettings(
        changed={"limits.bytes_per_s": 5, "mm2.offset_syncs": "target"}, since_ms=1_700_000_000_000, by="ada@host"
    )
    link = replace(link_of(), settings=chosen)
    _, err = shown(capsys, link)
    told = (
        'l: not as in the file: limits.bytes_per_s=5; mm2.offset_syncs="target"; set by ada@host at 2023-11-14T22:13:20'
    )
    assert told in err
    assert "Take it back: isthmus settings l --reset" in err
    settings = plain(link)["settings"]
    assert settings is not None
    assert settings["by"] == "ada@host"
    assert plain(link_of())["settings"] is None


def test_changes_of_loops_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Each that would be made, and those that cannot be, with the reason: once for all topics that have it."""

    def change(topic: str, before: str | None, after: str | None, problem: Problem | None = None) -> Change:
        return Change(
            loop="configs", subject=f"topic {topic}", setting="a.b", before=before, after=after, problem=problem
        )

    problem = Problem("it stays", "do nothing")
    stuck = tuple(change(topic, "1", "2", problem) for topic in ("x", "y", "z"))
    changes = (change("s", "1", "2"), change("t", None, "2"), change("u", "1", None), *stuck)
    # What is changed of topics has its row.
    created = replace(change("v", None, "3"), loop="topics")
    heard = replace(change("heartbeats", None, "1, compacted"), loop="mm2-heartbeats", setting="partitions")
    link = replace(link_of(decision(0)), changes=(created, heard, *changes))
    out, err = shown(capsys, link)
    assert "differences" not in out
    assert "topic v" not in err
    assert "l: configs: topic s: a.b becomes 2, which was 1" in err
    assert "topic t: a.b becomes 2, which was not there" in err
    assert "l: mm2-heartbeats: topic heartbeats is created, partitions: 1, compacted" in err
    assert "topic u: a.b is removed, which was 1" in err
    assert err.count("it stays") == 1
    assert "Not changed: l/topic x and 2 more: a.b: it stays do nothing" in err
    own = (change("orders", "1", "2"), change("orders", None, "2"), change("orders", "1", "2", problem))
    out, _ = shown(capsys, replace(link, changes=own))
    assert "differences" in out
    assert "copy identity 1 2 0 0" in out
    assert Plan(links=(link,)).has_changes
    assert not Plan(links=(replace(link, changes=stuck),)).has_changes


def test_values_of_configurations_may_be_anything(capsys: pytest.CaptureFixture[str]) -> None:
    """One that a broker refuses, say: told on one line, and no markup; `as_dict` has it as it is."""
    value = "1\n\x1b[2J[bold]имя[/bold]\u202e\r" + "x" * 5000
    made = Change(loop="configs", subject="topic t", setting="a.b", before=value, after=value)
    refused = replace(made, after="2", problem=Problem(f"refused: {value}", f"not {value}"))
    link = replace(link_of(decision(0)), changes=(made, refused))
    out, err = shown(capsys, link)
    assert not {"\x1b", "\r", "\u202e"} & set(out + err)
    told = "1 [2J[bold]имя[/bold]" + "x" * 5000
    assert f"l: configs: topic t: a.b becomes {told}, which was {told}" in err
    assert f"Not changed: l/topic t: a.b: refused: {told} not {told}" in err
    assert [each["before"] for each in plain(link)["changes"]] == [value, value]


def test_what_becomes_of_aborted_records_is_said_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """A word in the rows of the link, and one line on stderr with what would change it."""
    abilities = Abilities(writes_markers=True, verifies=True, tells=True)
    link = replace(link_of(decision(0)), aborted=treatment(AbortedPolicy.AUTO, abilities, "west"))
    out, err = shown(capsys, link)
    assert "copy identity omit 1" in out
    assert "l: aborted records are left out: west does not take them exactly once, as its brokers verify" in err
    assert "transaction.partition.verification.enable=false" in err


def test_a_mapped_topic_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """With why on stderr; aborted records never come there, whatever the link does with those of other topics."""
    abilities = Abilities(writes_markers=True, verifies=False, tells=True)
    link = replace(link_of(decision(0)), aborted=treatment(AbortedPolicy.COPY, abilities, "west"))
    note = Problem("offsets are mapped, as the target was written to before", "see docs/offsets.md")
    topic = replace(link.topics[0], is_mapped=True, notes=(note,))
    out, err = shown(capsys, replace(link, topics=(*link.topics, topic)))
    assert "copy identity copy 1" in out
    assert "copy mapped omit 1" in out
    assert f"Note: l/orders: {note.message} {note.hint}" in err


def test_nothing_refused_takes_no_column(capsys: pytest.CaptureFixture[str]) -> None:
    """A table is not wider than it has to be."""
    out, err = shown(capsys, link_of(decision(0)))
    assert "refused" not in out
    assert err == ""


def test_same_reason_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Partitions that follow each other and have the same reason are told together, others are cut short."""
    _, err = shown(capsys, link_of(*(decision(n, FOREIGN) for n in range(5)), decision(6, FOREIGN)))
    assert err.count("somebody wrote") == 2
    assert "partitions 0 to 4" in err
    _, err = shown(capsys, link_of(*(decision(n, Problem(f"reason {n}")) for n in range(15))))
    assert "reason 9" in err
    assert "reason 10" not in err
    assert "and 5 more" in err


def test_unexamined_and_unmatched_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """What could not be looked at, and what matches nothing, is named for what it is."""
    silent = decision(0, unexamined=Problem("no answer", "wait"))
    _, err = shown(capsys, link_of(silent, unmatched=(Problem('topics.include "x*" matches no topic of east', "y"),)))
    assert "Not examined: l/orders: partition 0: no answer wait" in err
    assert 'Warning: l: topics.include "x*" matches no topic of east y' in err
