"""Requests and answers about hidden topics, which clients must not read yet. Pure: bytes in, bytes out.

Clients see partitions without a leader, and wait as they do during an election: every client retries that without end.
A Fetch or ListOffsets all the same is answered with NOT_LEADER_OR_FOLLOWER, and the client asks for metadata again:
LEADER_NOT_AVAILABLE is no answer to Fetch, and Java's consumer does not expect it.

A broker goes on with the partitions in a session of Fetch or ShareFetch, even if the request does not name them. So a
session that began before a topic was hidden is answered as unknown, and the client begins a new one; and a request with
topics cut out is forwarded without a session, as the client believes those topics to be part of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from isthmus.gateway.frames.cutting import Insertion, Ruling, build_answer, edit_request, items_of
from isthmus.gateway.frames.hidden import HiddenTopics
from isthmus.gateway.frames.layout import Edit, MessageCursor, request_body, written_count
from isthmus.gateway.frames.messages import (
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    SHARE_FETCH,
    is_flexible,
)
from isthmus.gateway.frames.refusing import GROUPED, BodyWriter, NamedItem, NameVerdict
from isthmus.kafka import codes

READING: Final = frozenset({FETCH, LIST_OFFSETS, SHARE_FETCH})
"""Messages that read records, or ask which offsets can be read."""
SHOWING: Final = frozenset({METADATA, DESCRIBE_TOPIC_PARTITIONS})
"""Messages whose answers name the leaders of partitions."""
_CODE: Final = codes.NOT_LEADER_OR_FOLLOWER
_REFUSAL_MESSAGE: Final = "Its link is SYNCING: consumers cannot read it until it is IN_SYNC."
_SESSION_MESSAGE: Final = "Some of its topics are not to be read now: begin a new session."
_ID_BYTES: Final = 16
_NO_SESSION: Final = struct.pack(">ii", 0, -1)
_NO_LEADER: Final = struct.pack(">i", -1)
_NOT_AVAILABLE: Final = struct.pack(">h", codes.LEADER_NOT_AVAILABLE)


def reading_ruling(
    key: int, version: int, frame: memoryview, hidden: HiddenTopics, sessions: dict[int, int]
) -> Ruling | None:
    """Rule on a request that is one of `READING`, by the part of its frame that is there; `None` if it passes.
    `sessions` has for each message the `version` of the hidden topics at which its session on this connection began.

    :raises Short: More of the frame is needed.
    :raises ValueError: It is no such request.
    """
    body = request_body(frame[4:], flexible=is_flexible(key, version))
    return _RULINGS[key](version, frame, body, hidden, sessions)


def _rule_fetch(
    version: int, frame: memoryview, body: MessageCursor, hidden: HiddenTopics, sessions: dict[int, int]
) -> Ruling | None:
    body.skip(12 + (4 if version >= 3 else 0) + (1 if version >= 4 else 0))
    has_sessions, session_at = version >= 7, body.at
    is_full = not has_sessions or _is_first(body.skip, body.int32)
    count_at, count, begin = body.at, body.count(), body.at
    items = items_of(body, count, _build_fetch_reader(version))
    cut = [each for each in items if hidden.holds(each.name)]
    if not is_full and (cut or sessions.get(FETCH) != hidden.version):
        out = BodyWriter(version, flexible=False).numbers("4xhi", codes.FETCH_SESSION_ID_NOT_FOUND, 0).count(0)
        return Ruling(answer=build_answer(frame, out))
    if is_full and not cut:
        sessions[FETCH] = hidden.version
    if not cut:
        return None
    refusals = BodyWriter(version, flexible=False)
    for each in cut:
        refusals.text(each.name).count(len(each.parts))
        for partition in each.parts:
            refusals.numbers("ihq", partition, _CODE, -1).since(4, "q", -1).since(5, "q", -1)
            if version >= 4:
                refusals.count(-1)
            refusals.since(11, "i", -1).numbers("i", 0)
    if len(cut) == count:
        out = BodyWriter(version, flexible=False).since(1, "4x").since(7, "6x").count(count).add(refusals.found)
        return Ruling(answer=build_answer(frame, out))
    edits = [Edit(session_at, session_at + len(_NO_SESSION), _NO_SESSION)] if has_sessions else []
    edits += [Edit(count_at, begin, written_count(count - len(cut), flexible=False))]
    edits += [Edit(each.begin, each.end, b"") for each in cut]
    at = (4 if version >= 1 else 0) + (6 if has_sessions else 0)
    return Ruling(forwarded=edit_request(frame, edits), insertion=Insertion(at, len(cut), bytes(refusals.found)))


def _is_first(skip: Callable[[int], int], number: Callable[[], int]) -> bool:
    """Whether a request begins a session, or goes without one: its epoch says so."""
    skip(4)
    return number() <= 0


def _build_fetch_reader(version: int) -> Callable[[MessageCursor], NamedItem]:
    behind = 12 + (4 if version >= 9 else 0) + (8 if version >= 5 else 0)

    def read(body: MessageCursor) -> NamedItem:
        name, parts = body.text(), list[int]()
        for _ in range(body.count()):
            parts.append(body.int32())
            body.skip(behind)
        return NamedItem(name, parts)

    return read


def _rule_list_offsets(
    version: int, frame: memoryview, body: MessageCursor, hidden: HiddenTopics, _: dict[int, int]
) -> Ruling | None:
    body.skip(4 + (1 if version >= 2 else 0))
    count_at, count, begin = body.at, body.count(), body.at
    items = items_of(body, count, _build_list_offsets_reader(version))
    cut = [each for each in items if hidden.holds(each.name)]
    if not cut:
        return None
    refusals = BodyWriter(version, flexible=body.flexible)
    for each in cut:
        refusals.text(each.name).count(len(each.parts))
        for partition in each.parts:
            refusals.numbers("ih", partition, _CODE)
            if version == 0:
                refusals.count(0)
            refusals.since(1, "qq", -1, -1).since(4, "i", -1).tags()
        refusals.tags()
    if len(cut) == count:
        out = BodyWriter(version, flexible=body.flexible).since(2, "4x").count(count).add(refusals.found).tags()
        return Ruling(answer=build_answer(frame, out))
    edits = [Edit(count_at, begin, written_count(count - len(cut), flexible=body.flexible))]
    edits += [Edit(each.begin, each.end, b"") for each in cut]
    insertion = Insertion(4 if version >= 2 else 0, len(cut), bytes(refusals.found))
    return Ruling(forwarded=edit_request(frame, edits), insertion=insertion)


def _build_list_offsets_reader(version: int) -> Callable[[MessageCursor], NamedItem]:
    behind = (12 if version == 0 else 8) + (4 if version >= 4 else 0)

    def read(body: MessageCursor) -> NamedItem:
        name, parts = body.text(), list[int]()
        for _ in range(body.count()):
            parts.append(body.int32())
            body.skip(behind)
            body.skip_tags()
        body.skip_tags()
        return NamedItem(name, parts)

    return read


def _rule_share_fetch(
    version: int, frame: memoryview, body: MessageCursor, hidden: HiddenTopics, sessions: dict[int, int]
) -> Ruling | None:
    """Rule on a ShareFetch. Nothing is cut out, as there is no ShareFetch without a session: a first request for a
    hidden topic is answered here, so that no broker has a session with it, and the next request begins the session.
    """
    body.skip_text()
    body.skip_text()
    epoch = body.int32()
    if epoch < 0:
        # The last request of a session fetches nothing.
        return None
    is_known = sessions.get(SHARE_FETCH) == hidden.version
    body.skip(12 + (8 if version >= 1 else 0) + (2 if version >= 2 else 0))
    items = items_of(body, body.count(), _build_share_fetch_reader(version))
    cut = [each for each in items if hidden.ids is None or _id_of(frame, each) in hidden.ids]
    if not cut and (epoch == 0 or is_known):
        sessions[SHARE_FETCH] = hidden.version
        return None
    if epoch > 0:
        out = BodyWriter(version, flexible=True)
        GROUPED[SHARE_FETCH].write(out, body, NameVerdict(codes.SHARE_SESSION_NOT_FOUND, _SESSION_MESSAGE))
        return Ruling(answer=build_answer(frame, out))
    out = BodyWriter(version, flexible=True).numbers("4xh", 0).text(None).since(1, "4x").count(len(cut))
    for each in cut:
        out.add(_id_of(frame, each)).count(len(each.parts))
        for partition in each.parts:
            out.numbers("ih", partition, _CODE).text(_REFUSAL_MESSAGE).numbers("h", _CODE).text(_REFUSAL_MESSAGE)
            # No leader, no records, and no acquired ones.
            out.numbers("ii", -1, -1).tags().count(0).count(0).tags()
        out.tags()
    return Ruling(answer=build_answer(frame, out.count(0).tags()))


def _id_of(frame: memoryview, item: NamedItem) -> bytes:
    begin = 4 + item.begin
    return bytes(frame[begin : begin + _ID_BYTES])


def _build_share_fetch_reader(version: int) -> Callable[[MessageCursor], NamedItem]:
    def read(body: MessageCursor) -> NamedItem:
        body.skip(_ID_BYTES)
        parts = list[int]()
        for _ in range(body.count()):
            parts.append(body.int32())
            body.skip(4 if version == 0 else 0)
            for _ in range(body.count()):
                body.skip(16)
                body.skip(body.count())
                body.skip_tags()
            body.skip_tags()
        body.skip_tags()
        return NamedItem(None, parts)

    return read


_RULINGS: Final[
    Mapping[int, Callable[[int, memoryview, MessageCursor, HiddenTopics, dict[int, int]], Ruling | None]]
] = {FETCH: _rule_fetch, LIST_OFFSETS: _rule_list_offsets, SHARE_FETCH: _rule_share_fetch}


def leaders_hidden(key: int, version: int, body: MessageCursor, hidden: HiddenTopics) -> list[Edit]:
    """Return the edits to the body of an answer that is one of `SHOWING`: partitions of hidden topics have no leader.

    :raises Short: More of the body is needed.
    """
    found = list[Edit]()
    if key == METADATA:
        _skip_brokers(version, body)
    else:
        body.skip(4)
    for _ in range(body.count()):
        is_well = body.int16() == codes.NONE
        name = body.text()
        body.skip(_ID_BYTES if key != METADATA or version >= 10 else 0)
        body.skip(1 if key != METADATA or version >= 1 else 0)
        is_hidden = is_well and hidden.holds(name)
        for _ in range(body.count()):
            at = body.skip(2)
            body.skip(4)
            leader_at = body.skip(4)
            if is_hidden:
                found.append(Edit(at, at + 2, _NOT_AVAILABLE))
                found.append(Edit(leader_at, leader_at + 4, _NO_LEADER))
            body.skip(4 if key != METADATA or version >= 7 else 0)
            for _ in range(_lists_of_nodes(key, version)):
                body.skip(4 * body.count())
            body.skip_tags()
        body.skip(4 if key != METADATA or version >= 8 else 0)
        body.skip_tags()
    return found


def _skip_brokers(version: int, body: MessageCursor) -> None:
    body.skip(4 if version >= 3 else 0)
    for _ in range(body.count()):
        body.endpoint()
        if version >= 1:
            body.skip_text()
        body.skip_tags()
    if version >= 2:
        body.skip_text()
    body.skip(4 if version >= 1 else 0)


def _lists_of_nodes(key: int, version: int) -> int:
    """Count the lists of brokers that follow: replicas, in-sync and offline ones, and two more of KIP-966."""
    if key != METADATA:
        return 5
    return 3 if version >= 5 else 2
