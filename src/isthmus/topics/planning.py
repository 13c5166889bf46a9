"""Plan what to do from what was observed, by rules alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.memory.claims import Claim, Claims
from isthmus.memory.identity import mirrored_into_itself
from isthmus.model.kafka.topic import Settings, TopicDescription, TopicIds
from isthmus.model.kafka.transactions import AbortedPolicy, Visibility
from isthmus.model.lane import Lane, LaneKey, LaneState
from isthmus.model.link import Link
from isthmus.model.links.firstlook import FirstLook
from isthmus.model.links.remedies import BEGIN_ANEW, SOURCE_RECREATED, explain_recreated, keep_or_delete
from isthmus.model.links.transform import Transform
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import EARLIEST_LOCAL
from isthmus.model.problem import Problem, problem_of
from isthmus.model.schemas.gate import UNGATED
from isthmus.model.text.wording import first_few, format_count
from isthmus.model.trees.switching import before_begin, begin_of
from isthmus.topics.checks.tiers import left_notes, mapped_left, start_at, starts_at, tier_notes, with_beginnings
from isthmus.topics.checks.upstream import unseen_sources
from isthmus.topics.creation import creation, final_policy, is_filled, prefix_notes
from isthmus.topics.firstlook import first_partitions
from isthmus.topics.observation import ObservedLink
from isthmus.topics.offsets import choose
from isthmus.topics.plan import Action, LinkPlan, TopicPlan, TransformBegin
from isthmus.topics.preflight import (
    PartitionDecision,
    TopicDecision,
    TopicMode,
    TopicPair,
    batch_bytes_max,
    is_compacted,
    number,
    only_at_target,
    preflight,
    preflight_mapped,
)

EXPIRATION_MS_MAX: Final = 2**31 - 1
"""The largest `producer.id.expiration.ms` that brokers accept: 24.8 days."""
_DAY_MS: Final = 86_400_000
_NAMED_MAX: Final = 10
_COPY_ANEW: Final = (
    "Copy it under another name (topics.naming). The target topic keeps its records, also those of others."
)


def at_start(observed: ObservedLink, recorded: Mapping[TargetTopic, TopicIds]) -> dict[TargetTopic, TopicIds]:
    """Return the recorded ids that still count when a run begins.

    Where the target topic is not the one that was written, there is nothing left to confuse:
    mirroring begins again. While a run lasts, a target topic that goes away stops its lanes instead.
    """
    return {
        name: ids
        for name, ids in recorded.items()
        if name not in observed.pairs or _is_target(observed.pairs[name].target, ids)
    }


def with_parted(
    observed: ObservedLink, recorded: Mapping[TargetTopic, TopicIds], parted: Mapping[TargetTopic, TopicIds]
) -> dict[TargetTopic, TopicIds]:
    """Return the recorded ids with those of topics that continue with mapped offsets since both sides diverged, as far
    as the same topics are still there: one that was deleted at the target begins again, as the link says.
    """
    gone_on = {
        name: replace(ids, left=recorded[name].left, first_partitions=recorded[name].first_partitions)
        if name in recorded
        else ids
        for name, ids in parted.items()
        if name in observed.pairs and _is_target(observed.pairs[name].target, ids)
    }
    return {**recorded, **gone_on}


def _is_target(target: TopicDescription | None, ids: TopicIds) -> bool:
    return target is not None and not _differ(ids.target, target.topic_id)


def plan_link(
    observed: ObservedLink,
    claims: Claims,
    recorded: Mapping[TargetTopic, TopicIds] | None = None,
    look: FirstLook | None = None,
) -> LinkPlan:
    """Plan one link; `recorded` are the topics it began with, `look` is its first look for topics, from the ledger."""
    link = observed.link
    refusal = mirrored_into_itself(link, observed.source_id, observed.target_id)
    topics: tuple[TopicPlan, ...] = ()
    if refusal is None:
        topics = tuple(
            _topic(observed, name, claims, (recorded or {}).get(name), look) for name in sorted(observed.names.sources)
        )
    return LinkPlan(
        link=link.name,
        source=link.source.alias,
        target=link.target.alias,
        source_id=observed.source_id,
        target_id=observed.target_id,
        topics=topics,
        recommendations=(*_pauses(observed, topics), *unseen_sources(link, topics, claims)),
        advice=tuple(_advice(observed, topics)),
        aborted=observed.aborted,
        visibility=observed.visibility,
        unmatched=observed.unmatched,
        problem=None if refusal is None else problem_of(refusal),
    )


def find_diverged(plan: LinkPlan) -> frozenset[LaneKey]:
    """Return the partitions whose target is beyond the source, by a plan that was made from one look at both ends."""
    return frozenset(
        LaneKey(topic.topic, each.partition)
        for topic in plan.topics
        for each in topic.partitions
        if each.state is LaneState.DIVERGED
    )


def _topic(
    observed: ObservedLink, name: TargetTopic, claims: Claims, recorded: TopicIds | None, look: FirstLook | None
) -> TopicPlan:
    source_topic = observed.names.sources[name]
    if name in observed.names.refused:
        return _refuse(name, source_topic, observed.names.refused[name], LaneState.REFUSED)
    if name in observed.absent and recorded is not None and not recorded.is_forgotten:
        return _plan_deleted_source(observed.link, name, source_topic)
    problem = observed.problems.get(name)
    if problem is not None:
        return _refuse(name, source_topic, problem, observed.states.get(name, LaneState.SOURCE_UNAVAILABLE))
    link, local_starts = observed.link, observed.local_starts.get(name, {})
    recorded = _ids_that_count(recorded, observed.pairs[name])
    pair, left = with_beginnings(link.topics, observed.pairs[name], recorded, local_starts)

    def same(pair: TopicPair = pair) -> TopicDecision:
        return preflight(pair, holes_max=link.compaction_holes_max, cluster=link.target)

    # A single partition's outlook for the run is considered later, and changes nothing about the offsets.
    transform = link.transform_of(pair.source_name)
    choice = choose(link.topics, pair, recorded, lambda: same(replace(pair, outlooks={})), transform)
    problem = claims.grant(
        Claim(
            link=link.name,
            source_topic=source_topic,
            target_topic=name,
            source_id=observed.source_id,
            target_id=observed.target_id,
            is_mapped=choice.is_mapped,
            tree=link.tree,
        )
    )
    if problem is not None:
        return _refuse(name, source_topic, problem, LaneState.REFUSED, pair)
    if choice.refusal is not None:
        return _refuse(name, source_topic, choice.refusal, choice.state, pair)
    problem = _other_topic(pair, recorded, link)
    if problem is not None:
        return _refuse(name, source_topic, problem, LaneState.TOPIC_RECREATED, pair)
    first = first_partitions(link.topics, pair, recorded, look)
    if choice.is_mapped:
        start = start_at(link.topics, pair.source)
        left = mapped_left(pair, start, local_starts) if recorded is None else recorded.left
        begins = local_starts if start == EARLIEST_LOCAL else observed.pairs[name].begins
        starts = starts_at(link.topics, pair.source, first)
        decision = preflight_mapped(replace(pair, begins=begins), starts=starts)
    else:
        decision = same()
    if choice.reason is not None:
        decision = replace(decision, notes=(choice.reason, *decision.notes))
    parted = None if recorded is None else recorded.parted
    before = pair.settles if recorded is None else recorded.settles
    planned = _apply_decision(observed, pair, decision, first, before)
    changes = tuple(_transform_begins(pair, transform)) if planned.is_copied else ()
    letters = observed.letters.get(name) if planned.is_copied else None
    return replace(
        planned,
        notes=(*planned.notes, *(() if letters is None else letters.notes)),
        left=left,
        parted=parted,
        transform=transform,
        transform_begins=changes,
        dead_letters=letters,
    )


def _transform_begins(pair: TopicPair, transform: Transform | None) -> Iterator[TransformBegin]:
    """Yield the partitions that were copied by another transform up to where they are, by the ledger."""
    for partition, cursor in sorted(pair.cursors.items()):
        if cursor.transform if transform is None else not transform.is_generation(cursor.transform):
            yield TransformBegin(partition=partition, source_offset=cursor.source_offset, former=cursor.transform)


def _refuse(
    name: TargetTopic, source_topic: SourceTopic, problem: Problem, state: LaneState, pair: TopicPair | None = None
) -> TopicPlan:
    return TopicPlan(
        topic=name,
        source_topic=source_topic,
        action=Action.REFUSE,
        partition_count=0 if pair is None else pair.source.partition_count,
        reasons=(problem,),
        state=state,
    )


def _plan_deleted_source(link: Link, name: TargetTopic, source_topic: SourceTopic) -> TopicPlan:
    """Plan a topic that was mirrored, and that the source no longer has. One included by its name is kept."""
    is_deleted = link.on_source_deleted == "delete" and source_topic not in link.topics.literals
    becomes = "is deleted there once that is proven" if is_deleted else "stays there as it is"
    note = Problem(
        f"{link.source.alias} has {source_topic} no more: it was deleted there, and {name} of {link.target.alias} "
        f"{becomes}",
        f"isthmus forget {link.name} {name} has the link forget it (on_source_deleted: forget does it by itself). If "
        "it comes back under its name, that is another topic: isthmus link recover sets aside the target's records.",
    )
    return TopicPlan(
        topic=name,
        source_topic=source_topic,
        action=Action.DELETE if is_deleted else Action.KEEP,
        notes=(note,),
        state=LaneState.SOURCE_DELETED,
    )


def _ids_that_count(recorded: TopicIds | None, pair: TopicPair) -> TopicIds | None:
    """Return the recorded ids of a topic as far as they count: see `TopicIds.is_forgotten`."""
    if recorded is None or not recorded.is_forgotten:
        return recorded
    is_in_the_way = _is_target(pair.target, recorded) and _differ(recorded.source, pair.source.topic_id)
    return recorded if is_in_the_way else None


def _other_topic(pair: TopicPair, recorded: TopicIds | None, link: Link) -> Problem | None:
    """Return the problem where one of the topics is not the one that mirroring began with (KIP-516)."""
    if recorded is None:
        return None
    target = link.target
    if recorded.source_topic != pair.source_name:
        renamed = f"Give it another name (topics.naming). {keep_or_delete(pair.name, target, only_at_target(pair))}"
        return Problem(
            f"the target topic was made of {recorded.source_topic}, and is now to be made of {pair.source_name}",
            _COPY_ANEW if recorded.is_mapped else renamed,
        )
    if _differ(recorded.source, pair.source.topic_id):
        hint = (
            _COPY_ANEW if recorded.is_mapped else explain_recreated(pair.name, target, only_at_target(pair), link.name)
        )
        return Problem(SOURCE_RECREATED, hint)
    if pair.target is None:
        return Problem("the target topic was deleted", BEGIN_ANEW)
    if _differ(recorded.target, pair.target.topic_id):
        return Problem("the target topic was deleted and created again", BEGIN_ANEW)
    return None


def _differ(recorded: uuid.UUID, found: uuid.UUID) -> bool:
    return NO_TOPIC_ID not in (recorded, found) and recorded != found


def _apply_decision(
    observed: ObservedLink, pair: TopicPair, decision: TopicDecision, first_partitions: int, before: Settings
) -> TopicPlan:
    source, target = pair.source, pair.target
    final = {}
    if target is not None and (before or not decision.is_mapped):
        # A topic that others write to as well may have that configuration for a reason of its own.
        final = final_policy(source, target.own_configs, observed.link.configs, before)
    created, notes = None, (*decision.notes, *_more_notes(observed, pair, decision, is_filling=bool(final)))
    action = Action.ADD_PARTITIONS if decision.partitions_missing else Action.COPY
    if target is None:
        action = Action.CREATE
        wanted = creation(
            source,
            name=pair.name,
            defaults=observed.defaults.get(pair.name, {}),
            brokers=observed.target_brokers,
            has_prefix=any(p.prefix for p in decision.partitions),
            has_records=any(each.lag_records or each.waiting_records for each in decision.partitions),
            settings=observed.link.configs,
            replication_factor=observed.link.topics.replication_factor,
        )
        created, notes = wanted.topic, (*notes, *wanted.notes)
        final = final_policy(source, created.configs, observed.link.configs)
    refused = bool(decision.refusals or decision.partitions) and not decision.copies_something
    return TopicPlan(
        topic=pair.name,
        source_topic=pair.source_name,
        action=Action.REFUSE if refused else action,
        partition_count=source.partition_count,
        partitions=decision.partitions,
        reasons=decision.refusals,
        notes=notes,
        state=LaneState.REFUSED if decision.refusals else LaneState.STARTING,
        creation=None if refused else created,
        final={} if refused else final,
        settles=final if target is not None and not refused and is_filled(pair, _copied_ends(pair, decision)) else {},
        local_starts=observed.local_starts.get(pair.name, {}),
        is_mapped=decision.is_mapped,
        first_partitions=first_partitions if decision.is_mapped else -1,
        lanes=() if refused else tuple(_lanes(observed, pair, decision, first_partitions)),
    )


def _copied_ends(pair: TopicPair, decision: TopicDecision) -> dict[int, int] | None:
    """Return how far mapped partitions are, in source offsets; `None` where the target's own offsets show it."""
    if not decision.is_mapped:
        return None
    ends = {each.partition: -1 if each.copied_end is None else each.copied_end for each in decision.partitions}
    return {partition: max(end, pair.positions.get(partition, -1)) for partition, end in ends.items()}


def _more_notes(
    observed: ObservedLink, pair: TopicPair, decision: TopicDecision, *, is_filling: bool
) -> Iterator[Problem]:
    """Yield notes on old values that the target keeps, the filling of a topic, and its parts in a remote tier."""
    yield from prefix_notes(decision.partitions)
    if not is_filling and _keeps_old_values(pair):
        yield Problem(
            "the source is compacted and the target is not: the target keeps old values, and "
            "drops all of them by its retention",
            f"Set cleanup.policy={pair.source.value('cleanup.policy')} on the target topic.",
        )
    local_starts = observed.local_starts.get(pair.name, {})
    if not decision.is_mapped:
        begun = {each.partition for each in decision.partitions if each.target_end > 0}
        yield from left_notes(pair.source_ranges, pair.begins, begun=begun)
        yield from tier_notes(decision.partitions, local_starts)
    elif start_at(observed.link.topics, pair.source) == EARLIEST_LOCAL:
        yield from left_notes(pair.source_ranges, local_starts, begun=pair.cursors)
    else:
        yield from tier_notes(decision.partitions, local_starts)


def _keeps_old_values(pair: TopicPair) -> bool:
    """Whether only the source is compacted."""
    return pair.target is not None and is_compacted(pair.source) and not is_compacted(pair.target)


def _aborted_policy(observed: ObservedLink) -> AbortedPolicy:
    """Return how lanes treat aborted records: with AUTO they notice themselves when brokers begin to verify."""
    link, in_force = observed.link, observed.aborted
    is_left_out = in_force is not None and in_force.policy is AbortedPolicy.OMIT
    return AbortedPolicy.OMIT if is_left_out else link.transactions.aborted


def _is_whole(observed: ObservedLink, decision: TopicDecision) -> bool:
    """Whether lanes copy transactions before their outcome is known. A log cleaner may remove the end marker of one
    that is open at the target, which would then stay open for good.
    """
    in_force = observed.visibility
    is_wanted = in_force is not None and in_force.visibility is Visibility.WHOLE
    return is_wanted and not (decision.is_mapped or decision.is_compacted)


def _lanes(observed: ObservedLink, pair: TopicPair, decision: TopicDecision, first_partitions: int) -> Iterator[Lane]:
    """Yield a lane for each partition that is on both sides, and in its topic for dead letters, and not refused."""
    link, target, aborted = observed.link, pair.target, _aborted_policy(observed)
    starts = starts_at(link.topics, pair.source, first_partitions)
    if target is None:
        return
    letters = observed.letters.get(pair.name)
    count = target.partition_count if letters is None else min(target.partition_count, letters.partitions)
    for p in decision.partitions:
        if p.refusal is None and p.partition < count:
            yield Lane(
                source_topic=pair.source_name,
                source_topic_id=pair.source.topic_id,
                target_topic=pair.name,
                target_topic_id=target.topic_id,
                partition=p.partition,
                batch_bytes_max=batch_bytes_max(target),
                is_compacted=decision.is_compacted,
                holes_max=link.compaction_holes_max,
                aborted=aborted,
                is_whole=_is_whole(observed, decision),
                continues_after_gap=link.on_data_gap == "continue" or _gets_what_it_lacks(link),
                is_mapped=decision.is_mapped,
                start=starts[p.partition],
                gated=UNGATED if link.target.schemas is None else link.target.schemas.gate.of(pair.name),
                **_transform_fields(link, pair),
                **_begin_fields(link, pair, p),
            )


def _gets_what_it_lacks(link: Link) -> bool:
    """Whether its target is a leaf that was left by force, and gets what there still is of what it lacks: records that
    were deleted meanwhile are no reason to go without the rest.
    """
    return link.distributor is not None and link.distributor.ends is not None


def _transform_fields(link: Link, pair: TopicPair) -> dict[str, Any]:
    """Return how the records of lanes are changed on the way."""
    transform = link.transform_of(pair.source_name)
    return {} if transform is None else {"transform": transform.digest, "on_error": transform.on_error}


def _begin_fields(link: Link, pair: TopicPair, decision: PartitionDecision) -> dict[str, Any]:
    """Return where a lane begins, and the fields that only lanes of a distributor have."""
    role = link.distributor
    if role is None:
        return {"begin_offset": decision.begin}
    place = pair.source_name, pair.source.topic_id, decision.partition
    left_out, epoch = before_begin(role.begins, role.epochs, *place)
    return {
        "level": role.level,
        "flags": role.flags,
        "begin_offset": begin_of(role.begins, *place),
        "begin_left_out": left_out,
        "begin_epoch": epoch,
        "hold": 0 if role.going is None else role.going.serial,
        # A leaf that gets what it lacks gets no other records.
        "end_offset": -1 if role.ends is None else max(begin_of(role.ends, *place), 0),
        "has_allowance": role.has_allowance,
    }


def _advice(observed: ObservedLink, topics: tuple[TopicPlan, ...]) -> Iterator[Problem]:
    """Yield what would make the link safer or faster, for the operator to decide: `isthmus doctor` shows it."""
    copied = [topic.topic for topic in topics if topic.is_copied]
    yield from _longer_memory(observed, copied)
    if observed.visibility is not None and observed.visibility.problem is not None:
        yield observed.visibility.problem
    # No records of aborted transactions are copied where offsets are mapped.
    yield from _safer_ends(observed, [topic.topic for topic in topics if topic.mode is TopicMode.IDENTITY])


def _pauses(observed: ObservedLink, topics: tuple[TopicPlan, ...]) -> Iterator[Problem]:
    paused = [topic.topic for topic in topics if LaneState.PAUSED in topic.states]
    if paused:
        yield Problem(
            f"paused, so nothing is copied for now: {first_few(paused, _NAMED_MAX)}",
            f"isthmus resume {observed.link.name} goes on, with --topic or --namespace where it was paused so.",
        )


def _longer_memory(observed: ObservedLink, copied: list[TargetTopic]) -> Iterator[Problem]:
    current = observed.expiration_ms
    if current is None or not copied:
        return
    ages = [_record_age_ms(observed.pairs[name]) for name in copied]
    wanted = min(max(EXPIRATION_MS_MAX if age is None else age for age in ages), EXPIRATION_MS_MAX)
    if wanted <= current:
        return
    known = [age for age in ages if age is not None]
    kept = "for ever" if len(known) < len(ages) else f"for up to {_days(max(known))}"
    yield Problem(
        f"{observed.link.target.alias} forgets a producer whose last record is older than "
        f"{_days(current)}, and source topics keep records {kept}",
        f"Set producer.id.expiration.ms={wanted} on the target's brokers (dynamic, all brokers). "
        "Then the brokers themselves refuse a repeated or late write of old records too, on top of "
        "the waiting that protects them now.",
    )


def _safer_ends(observed: ObservedLink, copied: list[TargetTopic]) -> Iterator[Problem]:
    topics = sorted(observed.transactional.intersection(copied))
    risk = None if observed.aborted is None else observed.aborted.risk
    if topics and risk is not None:
        verb = "is" if len(topics) == 1 else "are"
        yield Problem(f"{first_few(topics, _NAMED_MAX)} {verb} written in transactions, and {risk.message}", risk.hint)


def _record_age_ms(pair: TopicPair) -> int | None:
    """Return the age at which records of a topic are deleted, `None` for never."""
    retention_ms = number(pair.source, "retention.ms", -1)
    if retention_ms < 0 or "delete" not in pair.source.cleanup_policy.split(","):
        return None
    return retention_ms


def _days(ms: int) -> str:
    return format_count(ms / _DAY_MS, "day")
