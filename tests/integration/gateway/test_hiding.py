"""A gateway in front of a follower whose link is SYNCING: nobody reads its topics, and everything beside passes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import Conversation, RequestStream
from isthmus.gateway.frames.hidden import HiddenTopics
from isthmus.gateway.frames.messages import PASSING
from isthmus.gateway.frames.serving import Serving
from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.kinds import DeclarationDocument, ReadableDocument, SynchronizedDocument
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.links.declaration import SOURCE, TARGET, attachment
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import DELETED, MODE, Author, change_registers
from tests.integration.gateway.definitions import MadeUp, Value, defaults, definitions, encoded, moved
from tests.integration.gateway.frames import answer, elsewhere, passed, request, versions_of

pytestmark = pytest.mark.integration
HIDDEN: Final = "hidden.orders"
HIDDEN_ID, SHOWN_ID = bytes(15) + b"\1", bytes(15) + b"\2"
EXAMPLES: Final = 12
ELSEWHERE: Final = 6


def said(**otherwise: Any) -> DeclarationDocument:
    """What was said of a link from S to T, which attaches the topics whose names begin so and is synchronous."""
    values = {
        SOURCE: {"cluster_id": "S", "alias": "south"},
        TARGET: {"cluster_id": "T", "alias": "north"},
        attachment(NamespaceMap.parse("hidden.")): True,
        MODE: SYNC,
        **otherwise,
    }
    registers = change_registers((), values, Author(by="anna", at_ms=1, where="T"))
    return DeclarationDocument(link="l", cluster="T", registers=registers)


def hidden(document: DeclarationDocument | None = None) -> HiddenTopics:
    """What is hidden at T while this is declared."""
    found, document = HiddenTopics(), document or said()
    found.take(document.key, 0, document)
    found.settle("T")
    if found:
        found.learn([HIDDEN_ID])
    return found


def begun(names: HiddenTopics) -> tuple[Conversation, RequestStream, Callable[[bytes], bytes]]:
    """A conversation, the way of its requests, and what becomes of what the broker answers."""
    conversation, requests, answers = Conversation.create(DEFAULTS, elsewhere, Serving(hidden=names))
    return conversation, requests, lambda sent: b"".join(map(bytes, answers.take(memoryview(sent))))


def asked(key: int, version: int, value: Value, *, tags: bool = False) -> bytes:
    """The frame of a request."""
    definition = definitions("Request")[key]
    return request(definition, version, encoded(definition, version, value, unknown_tags=tags), 7, b"me")


def told(key: int, version: int, value: Value) -> bytes:
    """The frame of an answer."""
    definition = definitions("Response")[key]
    return answer(definition, version, encoded(definition, version, value), 7, tags=b"\0")


def unread(key: int, version: int, item: Value) -> Value:
    """What an answer says of a topic of a request that is not to be read."""
    if key == 1:
        nothing: Value = {"ErrorCode": ELSEWHERE, "HighWatermark": -1, "LastStableOffset": -1, "LogStartOffset": -1}
        nothing |= {"AbortedTransactions": None, "PreferredReadReplica": -1, "Records": b""}
        parts = [{"PartitionIndex": each["Partition"], **nothing} for each in item["Partitions"]]
        return {"Topic": item["Topic"], "Partitions": parts}
    nowhere = {"ErrorCode": ELSEWHERE, "Timestamp": -1, "Offset": -1, "LeaderEpoch": -1}
    return {
        "Name": item["Name"],
        "Partitions": [{"PartitionIndex": each["PartitionIndex"], **nowhere} for each in item["Partitions"]],
    }


@pytest.mark.parametrize(("key", "name", "answered_at"), [(1, "Topic", "Responses"), (2, "Name", "Topics")])
def test_what_is_hidden_is_cut_out(key: int, name: str, answered_at: str) -> None:
    """In every version, however bytes arrive: the broker gets the request without what is hidden, and without a
    session, the client its answer with that refused in front, by a code that has it ask for metadata again; where all
    of it is hidden nothing is forwarded, where nothing is it passes as it is.
    """
    asking, telling, chance = definitions("Request")[key], definitions("Response")[key], random.Random(key)
    for version in versions_of(key):
        for example in range(EXAMPLES):
            conversation, requests, answered = begun(hidden())
            value = {**MadeUp(asking, version, chance).value(), "SessionId": 0, "SessionEpoch": chance.choice((0, -1))}
            made = [item for _ in range(4) for item in MadeUp(asking, version, chance).value()["Topics"]][:4]
            items = [{**item, name: chance.choice((HIDDEN, "mine")) + str(at)} for at, item in enumerate(made)]
            kept = [item for item in items if item[name].startswith(HIDDEN)]
            rest = [item for item in items if item not in kept]
            sent = asked(key, version, {**value, "Topics": items}, tags=bool(example % 2))
            without = {**value, "Topics": rest, "SessionEpoch": -1} if kept else value | {"Topics": rest}

            found = passed(requests, sent, chance)

            whole = [unread(key, version, item) for item in kept]
            if kept and not rest:
                (ours,) = conversation.expected
                assert found == b""
                assert ours.answer == told(key, version, {**defaults(telling, version), answered_at: whole})
                continue
            assert found == asked(key, version, without, tags=bool(example % 2)), (version, items)
            broker = MadeUp(telling, version, chance).value()
            client = {**broker, answered_at: whole + broker[answered_at]}
            assert answered(told(key, version, broker)) == told(key, version, client)
            assert not conversation.expected


def test_a_session_of_before_is_begun_anew() -> None:
    """What a session of Fetch has is sent whatever a request names: one that was begun before something was hidden is
    said to be unknown, and so is one that is to be given something hidden. One that was begun since goes on.
    """
    asking, telling, chance = definitions("Request")[1], definitions("Response")[1], random.Random(3)
    for version in range(7, PASSING[1].version_max + 1):
        names = hidden()
        conversation, requests, _ = begun(names)
        unknown = told(1, version, {**defaults(telling, version), "ErrorCode": 70, "SessionId": 0})
        value = MadeUp(asking, version, chance).value()
        parts = [{**each, "Partition": 0} for each in MadeUp(asking, version, chance).value()["Topics"][:0]]

        def sent(epoch: int, *topics: str, value: Value = value, version: int = version, parts: Any = parts) -> bytes:
            items = [{"Topic": each, "Partitions": parts} for each in topics]
            return asked(1, version, {**value, "SessionId": 4, "SessionEpoch": epoch, "Topics": items})

        for frame, is_known in (
            (sent(9), False),
            (sent(0, "mine"), True),
            (sent(1), True),
            (sent(2, "mine", HIDDEN), False),
            (sent(2, "others"), True),
        ):
            assert passed(requests, frame, chance) == (frame if is_known else b"")
            assert conversation.expected.pop().answer == (b"" if is_known else unknown)
        other = said(**{attachment(NamespaceMap.parse("mine")): True})
        names.take(other.key, 1, other)
        assert names.settle("T")
        assert passed(requests, sent(3), chance) == b""
        assert conversation.expected.pop().answer == unknown


def test_a_share_group_gets_nothing_that_is_hidden() -> None:
    """A first ShareFetch about something hidden is answered by us, so that no broker has a session of it; one that is
    begun without goes on; and one of before is begun anew. So is every one while the ids of topics are not known.
    """
    asking, telling, chance = definitions("Request")[78], definitions("Response")[78], random.Random(78)
    for version in versions_of(78):
        for _ in range(EXAMPLES):
            value = MadeUp(asking, version, chance).value()
            made = [item for _ in range(3) for item in MadeUp(asking, version, chance).value()["Topics"]]
            some = [{**each, "TopicId": SHOWN_ID} for each in made]
            both = [{**each, "TopicId": chance.choice((HIDDEN_ID, SHOWN_ID))} for each in made]
            conversation, requests, _ = begun(hidden())
            again = {**defaults(telling, version), "ErrorCode": 122, "NodeEndpoints": []}
            again["ErrorMessage"] = "Some of its topics are not to be read now: begin a new session."
            unknown = told(78, version, again)
            kept = [item for item in both if item["TopicId"] == HIDDEN_ID]
            nothing = {"ErrorCode": ELSEWHERE, "AcknowledgeErrorCode": ELSEWHERE, "Records": b"", "AcquiredRecords": []}
            nothing |= dict.fromkeys(
                ("ErrorMessage", "AcknowledgeErrorMessage"),
                "Its link is SYNCING: consumers cannot read it until it is IN_SYNC.",
            )
            nothing["CurrentLeader"] = {"LeaderId": -1, "LeaderEpoch": -1}
            parts = [
                [{"PartitionIndex": each["PartitionIndex"], **nothing} for each in item["Partitions"]] for item in kept
            ]
            responses = [{"TopicId": HIDDEN_ID, "Partitions": one} for one in parts]
            refused = told(78, version, {**defaults(telling, version), "ErrorMessage": None, "Responses": responses})
            for epoch, topics, wanted in (
                (3, some, unknown),
                (0, both, refused if kept else b""),
                (1, both, unknown if kept else b""),
                (0, some, b""),
                (1, some, b""),
                (2, both, unknown if kept else b""),
                (-1, some, b""),
            ):
                frame = asked(78, version, {**value, "ShareSessionEpoch": epoch, "Topics": topics}, tags=True)
                assert passed(requests, frame, chance) == (b"" if wanted else frame)
                assert conversation.expected.pop().answer == wanted
    unlearnt = HiddenTopics()
    unlearnt.take(said().key, 0, said())
    unlearnt.settle("T")
    conversation, requests, _ = begun(unlearnt)
    for epoch in (0, 1):
        frame = asked(78, version, {**value, "ShareSessionEpoch": epoch, "Topics": some})
        assert passed(requests, frame, chance) == (b"" if some or epoch else frame)


@pytest.mark.parametrize("key", [3, 75])
def test_hidden_partitions_have_no_leader(key: int) -> None:
    """In every version: a client waits for a leader, as during an election. Other topics have theirs, and brokers are
    where clients reach them.
    """
    telling, chance = definitions("Response")[key], random.Random(key)
    for version in versions_of(key):
        for example in range(EXAMPLES):
            conversation, requests, answered = begun(hidden())
            broker = MadeUp(telling, version, chance).value()
            for topic in broker["Topics"]:
                topic["Name"] = chance.choice((HIDDEN, "mine"))
                topic["ErrorCode"] = chance.choice((0, 0, 3))
            assert (
                passed(
                    requests,
                    frame := asked(key, version, MadeUp(definitions("Request")[key], version, chance).value()),
                    chance,
                )
                == frame
            )
            meant = moved(broker, elsewhere) if key == 3 else broker
            topics = [
                {
                    **topic,
                    "Partitions": [{**each, "ErrorCode": 5, "LeaderId": -1} for each in topic["Partitions"]]
                    if (topic["Name"], topic["ErrorCode"]) == (HIDDEN, 0)
                    else topic["Partitions"],
                }
                for topic in meant["Topics"]
            ]
            encoding = {"unknown_tags": bool(example % 2)}
            arriving, wanted = (
                answer(telling, version, encoded(telling, version, one, **encoding), 7, tags=b"\0")
                for one in (broker, {**meant, "Topics": topics})
            )
            assert answered(arriving) == wanted
            assert not conversation.expected


def test_which_topics_are_hidden() -> None:
    """Those that follow here by a synchronous link that was not in sync yet, by the newest statement of its mode; what
    it lets go of, what leads elsewhere, and groups are not.
    """
    names = hidden()
    assert (names.holds(HIDDEN), names.holds("mine"), names.links, names.version) == (True, False, ("l",), 2)
    statement = declaration_of("l", [said()]).mode_said
    for offset, word, is_hidden in (
        (3, ReadableDocument(link="l", said="0@T", since_ms=1), True),
        (5, ReadableDocument(link="l", said=statement, since_ms=1), False),
        (4, ReadableDocument(link="l", said="0@T", since_ms=1), False),
        (6, None, True),
    ):
        names.take("readable/l", offset, word)
        names.settle("T")
        assert names.holds(HIDDEN) == is_hidden
    for reveals in (False, True):
        once = SynchronizedDocument(link="l", said=statement, since_ms=1, reveals=reveals)
        names = hidden()
        names.take(once.key, 1, once)
        names.settle("T")
        assert names.holds(HIDDEN) == reveals, "only older releases say no more than that"
    for otherwise in (
        {MODE: "async"},
        {DELETED: True},
        {attachment(NamespaceMap.parse("hidden.")): False},
        {TARGET: {"cluster_id": "E", "alias": "east"}},
    ):
        assert not hidden(said(**otherwise))
    assert not hidden(
        said(
            **{
                attachment(NamespaceMap.parse("hidden.")): False,
                attachment(NamespaceMap.parse("hidden.", "group")): True,
            }
        )
    )
