"""What a gateway knows of Kafka's messages, held against their own definitions."""

from __future__ import annotations

import random
import struct

import pytest

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import Conversation, Expected
from isthmus.gateway.frames.messages import FLEXIBLE_FROM, LEFT_OUT, NEVER, PASSING, is_flexible
from isthmus.gateway.frames.rewriting import is_rewritten
from isthmus.gateway.frames.serving import Serving
from tests.integration.gateway.definitions import Definition, MadeUp, addressed, definitions, encoded, moved, uvarint
from tests.integration.gateway.frames import answer, elsewhere, pieces, request

pytestmark = pytest.mark.integration
EXAMPLES = 8
OF_APPLICATIONS = {
    "StreamsGroupDescribe.Groups.Members.UserEndpoint",
    "StreamsGroupHeartbeat.PartitionsByUserEndpoint.UserEndpoint",
}
REWRITTEN = (0, 3, 10, 60, 78, 79)


def where_it_is(_: int, host: str, port: int) -> tuple[str, int]:
    """Where a broker is anyway."""
    return host, port


def test_every_message_is_known() -> None:
    """A new message, or a new version of one, is looked at before clients are offered it."""
    known = {key: (passing.name, passing.version_max) for key, passing in PASSING.items()}
    for key, definition in definitions("Request").items():
        if key in LEFT_OUT or (key not in PASSING and not definition.versions):
            continue
        assert key in PASSING, f"{definition.name} ({key}) is new: let it pass, or leave it out"
        name, version_max = known[key]
        capped = {"Fetch": 11, "DescribeQuorum": 1, "Produce": 12, "OffsetCommit": 9, "TxnOffsetCommit": 5}
        capped |= {"AddPartitionsToTxn": 3, "DeleteTopics": 5}
        assert name == definition.name
        assert version_max == capped.get(name, definition.versions[-1]), f"{name} has another newest version"


def test_no_message_that_passes_holds_an_address_that_is_not_rewritten() -> None:
    """Nothing leads clients past the gateway: what holds addresses is rewritten, capped, or left out."""
    for key, passing in PASSING.items():
        definition = definitions("Response")[key]
        for version in range(definition.versions[0], passing.version_max + 1):
            found = set(addressed(definition, version)) - OF_APPLICATIONS
            assert not found or is_rewritten(key, version), f"{passing.name} {version} holds {found}"


def test_an_address_in_a_message_is_noticed() -> None:
    """The test before this one sees what it looks for, in the messages of which that is known."""
    answers = definitions("Response")
    found = {key for key in PASSING for version in answers[key].versions if list(addressed(answers[key], version))}

    assert {*REWRITTEN, 1, 55} <= found


@pytest.mark.parametrize("key", FLEXIBLE_FROM)
def test_the_form_of_messages_that_are_read(key: int) -> None:
    """From which version on a message has tags is as its definition says."""
    flexible = {kind: next(iter(definitions(kind)[key].flexible), NEVER) for kind in ("Request", "Response")}

    assert set(flexible.values()) == {FLEXIBLE_FROM[key]}


@pytest.mark.parametrize("key", REWRITTEN)
def test_addresses_are_rewritten_and_nothing_else(key: int) -> None:
    """In every version, however the bytes arrive: brokers are elsewhere, all else is byte by byte as it was, tags that
    nobody knows included; and where brokers stay where they are, so does every byte.
    """
    definition = definitions("Response")[key]
    chance = random.Random(key)
    for version in definition.versions:
        for example in range(EXAMPLES):
            tags = b"\0" if example % 2 else uvarint(1) + uvarint(99) + uvarint(3) + b"tag"
            value = MadeUp(definition, version, chance).value()
            for move in (elsewhere, where_it_is):
                conversation, _, answers = Conversation.create(DEFAULTS, move)
                conversation.expected += (Expected(7, key, version), Expected(8, 12, 0))
                sent = encoded(definition, version, value, unknown_tags=bool(example % 3))
                wanted = encoded(definition, version, moved(value, move), unknown_tags=bool(example % 3))
                behind = struct.pack(">ii", 4, 8)
                arriving = answer(definition, version, sent, 7, tags=tags) + behind
                found = b"".join(bytes(part) for piece in pieces(arriving, chance) for part in answers.take(piece))

                assert found == answer(definition, version, wanted, 7, tags=tags) + behind, version

                assert not conversation.expected


def test_producer_ids_are_marked_with_their_cluster() -> None:
    """In every version, however the bytes arrive: the id in an answer to a producer without transactions is marked;
    where one has a transactional id, or nothing was given, all stays as it is.
    """
    asking, telling, chance = definitions("Request")[22], definitions("Response")[22], random.Random(22)
    for version in telling.versions:
        for transactional, given in ((None, 1001), ("mine", 1001), (None, -1)):
            conversation, requests, answers = Conversation.create(DEFAULTS, where_it_is, Serving(tag=0x155))
            asked = {**MadeUp(asking, version, chance).value(), "TransactionalId": transactional, "ProducerId": 9}
            sent = request(asking, version, encoded(asking, version, asked), 7, b"client")
            assert b"".join(bytes(part) for piece in pieces(sent, chance) for part in requests.take(piece)) == sent
            value = {**MadeUp(telling, version, chance).value(), "ProducerId": given}
            is_marked = transactional is None and given >= 0
            wanted = {**value, "ProducerId": given | 0x155 << 40} if is_marked else value
            arriving, passed = (
                answer(telling, version, encoded(telling, version, each, unknown_tags=True), 7, tags=b"\0")
                for each in (value, wanted)
            )

            assert b"".join(bytes(part) for piece in pieces(arriving, chance) for part in answers.take(piece)) == passed
            assert not conversation.expected


def test_ends_of_epochs_lie_beyond_what_is_common() -> None:
    """In every version, however the bytes arrive: no answer names an end before that of what both clusters have in
    common, errors stay as they are, and so does all else.
    """
    asking, telling, chance = definitions("Request")[23], definitions("Response")[23], random.Random(23)
    common = {("orders", 0): 2000, ("orders", 1): 2000, ("orders", 2): 2000, ("paid", 0): 1}
    told = {"orders": [(0, 4, 1500), (0, -1, -1), (74, -1, -1)], "paid": [(0, 0, 7)], "others": [(0, 2, 3)]}
    meant = {**told, "orders": [(0, 4, 2000), (0, 0, 2000), (74, -1, -1)]}

    def value(which: dict[str, list[tuple[int, int, int]]]) -> dict[str, object]:
        return {
            "ThrottleTimeMs": 5,
            "Topics": [
                {
                    "Topic": topic,
                    "Partitions": [
                        {"ErrorCode": code, "Partition": partition, "LeaderEpoch": epoch, "EndOffset": end}
                        for partition, (code, epoch, end) in enumerate(found)
                    ],
                }
                for topic, found in which.items()
            ],
        }

    for version in telling.versions:
        for ends in (common, {}):
            conversation, requests, answers = Conversation.create(DEFAULTS, where_it_is, Serving(common=ends))
            body = encoded(asking, version, MadeUp(asking, version, chance).value())
            assert requests.take(memoryview(request(asking, version, body, 7, b"client")))
            arriving, wanted = (
                answer(telling, version, encoded(telling, version, each, unknown_tags=True), 7, tags=b"\0")
                for each in (value(told), value(meant if ends else told))
            )

            assert b"".join(bytes(part) for piece in pieces(arriving, chance) for part in answers.take(piece)) == wanted
            assert not conversation.expected


def test_requests_pass_as_they_are_and_answers_are_expected() -> None:
    """Every message in every version that is offered passes as it is, however its bytes arrive; each has an answer, but
    for a Produce with acks=0.
    """
    chance = random.Random(40)
    conversation, requests, _ = Conversation.create(DEFAULTS, where_it_is)
    for key, passing in PASSING.items():
        definition = definitions("Request")[key]
        for version in range(max(definition.versions[0], passing.version_min), passing.version_max + 1):
            for correlation in range(EXAMPLES):
                value = MadeUp(definition, version, chance).value()
                if key == 0:
                    value["Acks"] = chance.choice((-1, 0, 1))
                client = chance.choice((None, b"", b"client", b"c" * 300))
                sent = request(definition, version, encoded(definition, version, value), correlation, client)

                found = b"".join(bytes(part) for piece in pieces(sent, chance) for part in requests.take(piece))

                assert found == sent
                assert requests.is_between
                expected = [(each.correlation, each.key, each.version) for each in conversation.expected]
                assert expected == ([] if value.get("Acks") == 0 else [(correlation, key, version)])
                conversation.expected.clear()


def test_offered_versions_are_capped() -> None:
    """What a broker offers is offered to clients as far as it is known; features and tags stay as they are."""
    definition = definitions("Response")[18]
    chance = random.Random(18)
    for version in definition.versions:
        value = {**MadeUp(definition, version, chance).value(), "ErrorCode": 0}
        value["ApiKeys"] = [{"ApiKey": key, "MinVersion": 0, "MaxVersion": 99} for key in range(120)]
        conversation, _, answers = Conversation.create(DEFAULTS, where_it_is)
        conversation.expected.append(Expected(7, 18, version))
        kept = [
            {"ApiKey": key, "MinVersion": passing.version_min, "MaxVersion": passing.version_max}
            for key, passing in sorted(PASSING.items())
        ]

        found = b"".join(map(bytes, answers.take(memoryview(_offer(definition, version, value)))))

        assert found == _offer(definition, version, {**value, "ApiKeys": kept})


def _offer(definition: Definition, version: int, value: dict[str, object]) -> bytes:
    # The header of this answer has no tags in any version.
    body = struct.pack(">i", 7) + encoded(definition, version, value, unknown_tags=True)
    return struct.pack(">i", len(body)) + body


def test_a_broker_that_does_not_understand_is_understood() -> None:
    """The answer that a version of ApiVersions is not supported has the form of version 0, whatever was asked."""
    definition = definitions("Response")[18]
    value = {"ErrorCode": 35, "ApiKeys": [{"ApiKey": 18, "MinVersion": 0, "MaxVersion": 4}]}
    conversation, _, answers = Conversation.create(DEFAULTS, where_it_is)
    conversation.expected.append(Expected(7, 18, 5))
    body = struct.pack(">i", 7) + encoded(definition, 0, value)
    frame = struct.pack(">i", len(body)) + body

    assert b"".join(map(bytes, answers.take(memoryview(frame)))) == frame
    assert is_flexible(18, 5)
