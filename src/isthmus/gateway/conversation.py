"""The conversation of a client and a broker: split bytes into frames, and match answers with requests. Pure.

Bytes come in chunks and leave as views of these: only headers are looked at, and frames that have to be read or
rewritten are gathered. An answer belongs to the first request that waits for one, of any kind; a Produce with acks=0
waits for none.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from isthmus.gateway.bounds import GatewayBounds
from isthmus.gateway.frames.acknowledging import build_refusal, read_acknowledgements
from isthmus.gateway.frames.comingagain import ComingAgain
from isthmus.gateway.frames.committing import (
    CommitAsked,
    CommitOwed,
    PositionSent,
    commit_told,
    positions_committed,
    positions_within,
    transaction_ended,
)
from isthmus.gateway.frames.cutting import Insertion, Ruling, insert_items
from isthmus.gateway.frames.duties import NO_DUTIES, Duties, Duty, SyncLink
from isthmus.gateway.frames.epochends import epoch_ends_beyond
from isthmus.gateway.frames.hiding import READING, SHOWING, leaders_hidden, reading_ruling
from isthmus.gateway.frames.joining import BEATING, is_joining, joining_anew
from isthmus.gateway.frames.layout import Edit, MessageCursor, Short, request_body, response_body, splice
from isthmus.gateway.frames.messages import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    LEADING,
    NEVER,
    OFFSET_COMMIT,
    OFFSET_FOR_LEADER_EPOCH,
    PASSING,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    TXN_OFFSET_COMMIT,
    is_flexible,
)
from isthmus.gateway.frames.producing import tag_producer
from isthmus.gateway.frames.reserving import CONCERNED, ruling
from isthmus.gateway.frames.rewriting import LeadTo, edits, is_rewritten, refused_api_versions, refused_login
from isthmus.gateway.frames.serving import ANY, Serving
from isthmus.gateway.frames.settling import find_appended, settle_request
from isthmus.gateway.frames.transacting import ANNOUNCING, committed_there, learn_owner, producer_within, told_within
from isthmus.gateway.frames.walking import ProduceWalk
from isthmus.gateway.synchronous.holding import HeldAnswer, Leaving, Owed
from isthmus.kafka import codes
from isthmus.kafka.connect.frames import Buffer
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.gateways.carriedtransactions import WithinVerdict

_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">ihhi")
_ANSWER: Final = struct.Struct(">ii")
_SIZE_MAX: Final = 0x7FFFFFFF
_REQUEST_BYTES_MIN: Final = 8
_ANSWER_BYTES_MIN: Final = 4
_NO_ACKS: Final = 0
_ACKS_BYTES: Final = 2
_ALL_ACKS: Final = -1
_ALL_ACKS_WRITTEN: Final = b"\xff\xff"
_TRANSACTIONAL_FROM: Final = 3
_ABORTABLE_FROM: Final = 11
"""Clients of this version abort at TRANSACTION_ABORTABLE at once, and begin a new transaction. Others get an error with
their commit: after a code by which they give a batch up, kafka-python and aiokafka cannot write again, as its sequence
is missing from then on; and a retriable code keeps the transaction open.
"""
_BUMPING_FROM: Final = 3
_PRODUCER: Final = struct.Struct(">qh")
_EPOCH: Final = struct.Struct(">i")
_NAME_LENGTH_MAX: Final = 60
_LOOKED_AT: Final = {
    PRODUCE: 0,
    OFFSET_COMMIT: 0,
    API_VERSIONS: 3,
    INIT_PRODUCER_ID: 0,
    OFFSET_FOR_LEADER_EPOCH: 0,
    END_TXN: 0,
    TXN_OFFSET_COMMIT: 0,
    ADD_PARTITIONS_TO_TXN: 0,
    ADD_OFFSETS_TO_TXN: 0,
    **dict.fromkeys(BEATING, 0),
}
"""Requests whose body is read too, and from which version on."""
_COMMITS: Final = frozenset({OFFSET_COMMIT, END_TXN, TXN_OFFSET_COMMIT})
_LOGINS: Final = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
_BEFORE_LOGIN: Final = _LOGINS | {API_VERSIONS}
_SCRAM_DONE: Final = b"v="
_LOOKS_LIKE: Final = {b"\x16\x03": "TLS", b"GET ": "HTTP", b"POST": "HTTP", b"HEAD": "HTTP"}


class NotPassed(Exception):
    """The bytes must not pass: the connection ends."""


AnswerChange = Callable[[MessageCursor], list[Edit]]
"""Returns the edits to the body of an answer."""


class Expected(NamedTuple):
    """An answer that a client waits for. Our own answer is there already, as `answer`; one of the broker is edited by
    `change`, where the request calls for that, and with `owed` it may be held. It `is_blind` if it cannot be held, as
    the request was not examined when it passed: there was no synchronous link. With `walked` it tells how producers go
    on that came from another cluster. The `insertion` answers for what was cut out of the request; an answer that
    `is_dropped` is to a request of the gateway itself.
    """

    correlation: int
    key: int
    version: int
    answer: bytes = b""
    change: AnswerChange | None = None
    owed: Owed | None = None
    is_blind: bool = False
    walked: ProduceWalk | None = None
    insertion: Insertion | None = None
    is_dropped: bool = False

    @property
    def is_gathered(self) -> bool:
        """Whether the answer has to be there as a whole."""
        return self.owed is not None or self.walked is not None or self.is_dropped


class _Looked(NamedTuple):
    """The result of examining a request: whether an answer comes, or our own `answer`, how the answer is changed or
    held, and whether the request was walked through already; and the `ruling` where it is about reserved names, with
    `sent` as the request to forward then.
    """

    is_answered: bool = True
    answer: bytes = b""
    change: AnswerChange | None = None
    owed: Owed | None = None
    is_blind: bool = False
    is_gathered: bool = False
    walked: ProduceWalk | None = None
    ruling: Ruling | None = None
    sent: Buffer = b""

    @property
    def is_other(self) -> bool:
        """Whether the request is not forwarded as it came."""
        return bool(self.answer) or self.ruling is not None


_PASSES: Final = _Looked()
"""The request passes without an examination."""


class Software(NamedTuple):
    """The name and version that a client gives of its software (KIP-511)."""

    name: str = "unknown"
    version: str = "unknown"


UNKNOWN: Final = Software()


@dataclass(slots=True)
class Conversation:
    """The state that both directions share: the answers that the client waits for, in the order of its requests. `now`
    is when (monotonic s) the current bytes came. While a commit is `asked` for, nothing passes until
    `RequestStream.decide`. `ends_for` is why the connection is to end once all that passed is answered.
    """

    limits: GatewayBounds
    move: LeadTo
    expected: deque[Expected]
    serving: Serving = ANY
    duties: Duties = NO_DUTIES
    now: float = 0.0
    asked: CommitAsked | None = None
    ends_for: str = ""
    software: Software = UNKNOWN
    requests: int = 0
    has_spoken: bool = False
    is_led_on: bool = False
    is_certified: bool = False
    """Whether we have logged in for the client, by its certificate."""
    needs_login: bool = False
    """Whether brokers have the client log in itself."""
    has_logged_in: bool = False
    again: ComingAgain = field(default_factory=ComingAgain)
    """The batches that producers are to send again."""
    sessions: dict[int, int] = field(default_factory=dict)
    """The `HiddenTopics.version` at which the fetch sessions of this connection began, by API key."""

    def untimely(self, key: int) -> str:
        """Return why a message must not be sent on this connection now; "" where it may be. Brokers close a connection
        that asks for more before its login: our own answers must not reveal more than theirs.
        """
        if self.is_led_on and key not in LEADING:
            return "the broker is away, and another one only answers with the addresses of brokers"
        if self.needs_login and not self.has_logged_in and key not in _BEFORE_LOGIN:
            name = PASSING[key].name if key in PASSING else f"a message with the key {key}"
            return f"it sent {name} before it had logged in, and brokers ask for a login: its sasl.mechanism is missing"
        return ""

    def forget(self) -> None:
        """Note that no answer comes any more."""
        for each in self.expected:
            if each.walked is not None:
                self.serving.carried.take_answer(each.walked, ())

    @property
    def is_blind(self) -> bool:
        """Whether an acknowledgement is in flight that cannot be held."""
        return any(each.is_blind for each in self.expected)

    @classmethod
    def create(
        cls, limits: GatewayBounds, move: LeadTo, serving: Serving = ANY, duties: Duties = NO_DUTIES
    ) -> tuple[Conversation, RequestStream, AnswerStream]:
        """Create a conversation and its two streams."""
        conversation = cls(limits, move, deque(), serving, duties)
        return conversation, RequestStream(conversation), AnswerStream(conversation)


class RequestStream:
    """The stream from the client to the broker."""

    __slots__ = (
        "_again_at",
        "_conversation",
        "_decided",
        "_expected",
        "_frame_max",
        "_head",
        "_is_dropping",
        "_is_ending",
        "_is_fenced",
        "_left",
        "_sent",
        "_walk",
    )

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._expected = conversation.expected
        self._sent: list[Buffer] = []
        self._frame_max = conversation.limits.frame_bytes
        self._head = bytearray()
        self._again_at = 0
        self._left = 0
        self._walk: ProduceWalk | None = None
        self._decided: CommitOwed | bytes | None = None
        self._is_dropping = False
        self._is_ending = False
        self._is_fenced = False

    @property
    def is_between(self) -> bool:
        """Whether the last request that was begun has passed as a whole."""
        return not self._left

    @property
    def gathered_bytes(self) -> int:
        """The size of the request that is being gathered, if it is a large one; otherwise 0."""
        return self._again_at if self._again_at > self._conversation.limits.gathered_free_bytes else 0

    def end(self) -> None:
        """Let the request that is passing end, and stop before the next one."""
        self._is_ending = True

    @property
    def asks(self) -> CommitAsked | None:
        """The commit that waits for a decision; none while it would not pass anyway."""
        return None if self._is_fenced or self._is_ending else self._conversation.asked

    def decide(self, asked: CommitAsked, decided: CommitOwed | bytes) -> None:
        """Forward a commit, or answer it with these bytes, at the next `take`. Ignored if the commit no longer waits,
        as it was fenced meanwhile.
        """
        if self.asks is asked:
            self._decided = decided

    def fence(self, *, is_up: bool) -> None:
        """Let the request that is passing end, and keep the bytes behind it while the fence is up. A decision about a
        commit is dropped: it has to be made again.
        """
        self._is_fenced = is_up
        self._decided = self._conversation.asked = None

    def take(self, chunk: memoryview) -> list[Buffer]:
        """Take bytes from the client, and return those that go to the broker: views of the chunk.

        :raises NotPassed: The connection is to be ended.
        """
        if self._head:
            self._head += chunk
            if len(self._head) < self._again_at:
                return []
            chunk, self._head = memoryview(self._head), bytearray()
        self._again_at = 0
        out: list[Buffer] = []
        begin = at = 0
        end = len(chunk)
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                self._left -= step
                if self._walk is not None:
                    self._go_through(chunk[at : at + step])
                at += step
                if self._is_dropping:
                    begin = at
                continue
            size = 0 if self._is_ending or self._is_fenced else self._begin(chunk, at)
            if not size:
                self._keep(chunk[at:])
                break
            self._left = size
            if self._is_dropping:
                out += (each for each in (chunk[begin:at], *self._sent) if each)
                begin, self._sent = at, []
        if at > begin:
            out.append(chunk[begin:at])
        return out

    def _keep(self, head: memoryview) -> None:
        if self._is_ending:
            return
        is_kept = self._is_fenced or self._again_at or self._conversation.asked is not None
        if not is_kept and len(head) > self._conversation.limits.header_bytes:
            raise NotPassed(f"the header of a request is longer than {self._conversation.limits.header_bytes} bytes")
        self._head = bytearray(head)

    def _go_through(self, passing: memoryview) -> None:
        if self._walk is None:
            return
        try:
            self._walk.take(passing)
        except ValueError as error:
            raise NotPassed(f"a request Produce cannot be read: {error}") from None
        if not self._left:
            if not self._walk.is_done:
                raise NotPassed("a request Produce ends before it should")
            self._walk = None

    def _begin(self, chunk: memoryview, at: int) -> int:
        """Examine the request that begins here. Return the size of its frame in bytes, 0 if more bytes are needed."""
        if len(chunk) - at < _REQUEST.size:
            return 0
        size, key, version, correlation = _REQUEST.unpack_from(chunk, at)
        if not _REQUEST_BYTES_MIN <= size <= self._frame_max:
            raise NotPassed(_describe_no_frame(size, bytes(chunk[at : at + _SIZE.size])))
        if why := self._conversation.untimely(key):
            raise NotPassed(why)
        looked: _Looked | None = _PASSES
        if not _is_offered(key, version):
            looked = _Looked(answer=_refusal(key, version, correlation))
        elif self._conversation.is_certified and key in _LOGINS:
            # The client would log in as another user on a connection with our login.
            looked = _Looked(answer=refused_login(key, version, correlation))
        elif self._is_judged(key):
            looked = self._judge_names(key, version, correlation, chunk[at : at + _SIZE.size + size])
        elif version >= _LOOKED_AT.get(key, version + 1):
            looked = self._look(key, version, correlation, chunk[at : at + _SIZE.size + size])
        if looked is None:
            return 0
        self._conversation.has_spoken = True
        self._conversation.requests += 1
        self._is_dropping = looked.is_other
        self._expect(key, version, correlation, looked)
        return _SIZE.size + int(size)

    def _expect(self, key: int, version: int, correlation: int, looked: _Looked) -> None:
        """Expect the answer to a request, and keep the bytes that are sent in its place."""
        ruled = looked.ruling
        if ruled is not None:
            self._sent = [ruled.before, looked.sent]
            if ruled.before:
                self._expected.append(Expected(correlation, key, version, is_dropped=True))
            if ruled.ends_connection:
                self._is_ending = True
                self._conversation.ends_for = "it asked for no answer, and wrote to a topic that is reserved"
        if looked.is_answered:
            self._expected.append(
                Expected(
                    correlation,
                    key,
                    version,
                    looked.answer,
                    looked.change,
                    looked.owed,
                    looked.is_blind,
                    looked.walked,
                    None if ruled is None else ruled.insertion,
                )
            )
        if isinstance(looked.owed, ProduceWalk) and not looked.is_gathered:
            self._walk = looked.owed

    def _is_judged(self, key: int) -> bool:
        """Whether a message may be about names that are reserved or hidden."""
        serving = self._conversation.serving
        return (key in CONCERNED and bool(serving.reserved)) or (key in READING and bool(serving.hidden))

    def _rule(self, key: int, version: int, frame: memoryview) -> Ruling | None:
        conversation, found = self._conversation, None
        if key in CONCERNED and conversation.serving.reserved:
            found = ruling(key, version, frame, conversation.serving.reserved, conversation.now)
        if found is None and key in READING and conversation.serving.hidden:
            found = reading_ruling(key, version, frame, conversation.serving.hidden, conversation.sessions)
        return found

    def _judge_names(self, key: int, version: int, correlation: int, frame: memoryview) -> _Looked | None:
        """Rule on a request that may be about reserved or hidden names; the part that is forwarded is examined like all
        other requests. `None` if more of it is needed.
        """
        try:
            ruled = self._rule(key, version, frame)
            if ruled is None:
                return (
                    self._look(key, version, correlation, frame) if version >= _LOOKED_AT.get(key, NEVER) else _PASSES
                )
            # It is forwarded as a whole: names may have arrived before the fields behind them.
            if not self._gather(frame):
                return None
            if key == PRODUCE and version >= _TRANSACTIONAL_FROM:
                self._remember_refused(version, frame)
            return self._apply_ruling(ruled, key, version, correlation)
        except Short:
            if self._gather(frame):
                raise NotPassed(f"a request {PASSING[key].name} is cut off") from None
            return None
        except ValueError as error:
            raise NotPassed(f"a request {PASSING[key].name} does not pass: {error}") from None

    def _remember_refused(self, version: int, frame: memoryview) -> None:
        """Remember refused batches of reserved topics: a producer may send them again after the release."""
        serving, again, now = self._conversation.serving, self._conversation.again, self._conversation.now
        is_sure = serving.reserved.is_sure(now)
        if is_sure and not again:
            return
        body = request_body(frame[_SIZE.size :], flexible=is_flexible(PRODUCE, version))
        body.skip_text()
        body.skip(_ACKS_BYTES)
        walk = ProduceWalk(_SIZE.size + body.at, flexible=body.flexible)
        walk.take(frame)
        refused_ones = [each for each in walk.written if serving.reserved.holds("topic", each.topic)]
        code = codes.TOPIC_AUTHORIZATION_FAILED if is_sure else codes.NOT_LEADER_OR_FOLLOWER
        again.refuse(refused_ones, {(each.topic, each.partition): code for each in refused_ones}, now)

    def _apply_ruling(self, ruled: Ruling, key: int, version: int, correlation: int) -> _Looked:
        if ruled.answer:
            return _Looked(answer=ruled.answer)
        if not ruled.forwarded:
            return _Looked(is_answered=False, ruling=ruled)
        sent, looked = bytearray(ruled.forwarded), _PASSES
        if key == PRODUCE:
            looked = self._look(key, version, correlation, memoryview(sent)) or _PASSES
        if looked.answer and ruled.insertion is not None:
            # The rest of the request is refused as well, for another reason.
            return _Looked(answer=_with_inserted(looked.answer, version, ruled.insertion))
        if isinstance(looked.owed, ProduceWalk) and not looked.is_gathered:
            looked.owed.take(memoryview(sent))
            looked = looked._replace(is_gathered=True)
        return looked._replace(ruling=ruled, sent=sent)

    def _look(self, key: int, version: int, correlation: int, frame: memoryview) -> _Looked | None:
        """Examine the body of a request. `None` if more of it is needed."""
        payload = frame[_SIZE.size :]
        (size,) = _SIZE.unpack_from(frame)
        try:
            body = request_body(payload, flexible=is_flexible(key, version))
            if key == PRODUCE:
                return self._look_at_produce(version, correlation, frame, body)
            if key in ANNOUNCING:
                return self._look_at_announcement(key, version, correlation, frame, body)
            if key in _COMMITS:
                return self._look_at_commit(key, version, correlation, frame, body)
            if key in BEATING:
                is_member = self._conversation.serving.stay and not is_joining(body)
                return _Looked(change=joining_anew if is_member else None)
            if key == INIT_PRODUCER_ID:
                return self._look_at_initialization(version, frame, body)
            if key == OFFSET_FOR_LEADER_EPOCH:
                common = self._conversation.serving.common
                return _Looked(change=partial(epoch_ends_beyond, version=version, ends=common) if common else None)
            self._conversation.software = Software(_read_name(body), _read_name(body))
        except Short:
            if len(payload) == size:
                raise NotPassed(f"a request {PASSING[key].name} ends within its header") from None
            return None
        except ValueError as error:
            raise NotPassed(f"a request {PASSING[key].name} cannot be read: {error}") from None
        return _Looked()

    def _look_at_announcement(
        self, key: int, version: int, correlation: int, frame: memoryview, body: MessageCursor
    ) -> _Looked | None:
        conversation, begin = self._conversation, body.at
        if conversation.serving.transactions:
            name, producer_id, _ = producer_within(key, body)
            verdict = conversation.serving.transactions.judge(name, producer_id, conversation.now)
            if verdict is not WithinVerdict.HERE:
                return _Looked(answer=told_within(key, version, frame, verdict)) if self._gather(frame) else None
            body.at = begin
        return self._look_at_commit(key, version, correlation, frame, body) if key in _COMMITS else _Looked()

    def _look_at_initialization(self, version: int, frame: memoryview, body: MessageCursor) -> _Looked:
        serving, transactional_id = self._conversation.serving, body.text()
        if transactional_id is None:
            # Coordinators check the owner of a transactional id themselves.
            return _Looked(change=partial(tag_producer, tag=serving.tag, stay=serving.stay) if serving.tag else None)
        if version >= _BUMPING_FROM and serving.transactions:
            body.skip(4)
            at, producer_id, epoch = _SIZE.size + body.at, body.int64(), body.int16()
            here = serving.transactions.known_here(transactional_id, producer_id, epoch)
            if here is not None:
                _PRODUCER.pack_into(frame, at, *here)
        if not serving.transactions:
            return _Looked()
        change = partial(
            learn_owner,
            transactions=serving.transactions,
            transactional_id=transactional_id,
            asked_s=self._conversation.now,
        )
        return _Looked(change=change)

    def _look_at_produce(
        self, version: int, correlation: int, frame: memoryview, body: MessageCursor
    ) -> _Looked | None:
        name = body.text() if version >= _TRANSACTIONAL_FROM else None
        acks_at = _SIZE.size + body.at
        acks = body.int16()
        links = self._conversation.duties.links
        serving = self._conversation.serving
        is_judged = version >= _TRANSACTIONAL_FROM and serving.judges(is_within=name is not None)
        is_judged = is_judged or bool(self._conversation.again)
        if acks == _NO_ACKS or not (links or is_judged):
            return _Looked(is_answered=acks != _NO_ACKS, is_blind=acks != _NO_ACKS)
        if version < _TRANSACTIONAL_FROM:
            raise NotPassed(
                f"Produce in version {version} does not pass where links are synchronous: a client of Kafka 0.11 or "
                "newer is needed"
            )
        # Brokers take no batch of a transaction whose id the request does not name.
        kinds = (False, True) if name is not None and version >= _ABORTABLE_FROM else (False,)
        becomes_other = _may_become_other(links, acks, kinds) and _may_become_other(self._find_links(body), acks, kinds)
        walk = ProduceWalk(
            _SIZE.size + body.at,
            flexible=body.flexible,
            begun_at=self._conversation.now,
            transactional_id=name,
        )
        if not (becomes_other or is_judged):
            return _Looked(owed=walk if acks == _ALL_ACKS else None)
        if not self._gather(frame):
            return None
        walk.take(frame)
        if not walk.is_done:
            raise ValueError("it ends before it should")
        return self._judge(walk, version, correlation, frame, acks_at)

    def _find_links(self, body: MessageCursor) -> Collection[SyncLink]:
        """Find the links that a Produce may be about, by its first topic; all links if it has several topics.

        :raises Short: More of the body is needed.
        """
        duties, begin = self._conversation.duties, body.at
        body.skip(_SIZE.size)
        topic = body.text() if body.count() == 1 else None
        body.at = begin
        if topic is None:
            return duties.links
        link = duties.of(topic)
        return () if link is None else (link,)

    def _gather(self, frame: memoryview) -> bool:
        """Gather a request that has to be examined as a whole; whether all of it is there."""
        whole = _SIZE.size + int(_SIZE.unpack_from(frame)[0])
        if len(frame) < whole:
            self._again_at = whole
        return len(frame) >= whole

    def _look_at_commit(
        self, key: int, version: int, correlation: int, frame: memoryview, body: MessageCursor
    ) -> _Looked | None:
        begin, transactions = body.at, self._conversation.serving.transactions
        ended = transaction_ended(body) if key == END_TXN and transactions else None
        body.at = begin
        looked = self._examine_commit(key, version, correlation, frame, body)
        if looked is None or ended is None or not ended.is_commit:
            return looked
        commit = ended.apply_commit(version)
        return looked._replace(
            change=partial(committed_there, version=version, transactions=transactions, commit=commit)
        )

    def _examine_commit(
        self, key: int, version: int, correlation: int, frame: memoryview, body: MessageCursor
    ) -> _Looked | None:
        conversation = self._conversation
        asked, conversation.asked = conversation.asked, None
        decided, self._decided = self._decided, None
        if decided is not None:
            return _Looked(answer=decided) if isinstance(decided, bytes) else _Looked(owed=decided)
        if key == END_TXN and conversation.serving.transactions:
            answer = self._answer_foreign_end(version, correlation, frame, body)
            if answer:
                return _Looked(answer=answer)
        common = conversation.serving.common if key != END_TXN else None
        if not (conversation.duties.links or common):
            return _Looked()
        if not self._gather(frame):
            return None
        if key != END_TXN:
            owed, sent = (positions_committed if key == OFFSET_COMMIT else positions_within)(body, version)
            if common:
                _forget_epochs(frame, sent, common)
            return _Looked(owed=owed if conversation.duties.links else None)
        ended = transaction_ended(body)
        if not ended.is_commit:
            return _Looked()
        conversation.asked = asked or CommitAsked(
            ended.transactional_id, version, correlation, conversation.now, producer_id=ended.producer_id
        )
        return None

    def _answer_foreign_end(self, version: int, correlation: int, frame: memoryview, body: MessageCursor) -> bytes:
        """Build our answer to the end of a transaction of another cluster, where a commit may be decided; b"" for one
        of this cluster.
        """
        conversation, begin = self._conversation, body.at
        ended, transactions = transaction_ended(body), conversation.serving.transactions
        body.at = begin
        commit = ended.apply_commit(version)
        if ended.is_commit:
            verdict = transactions.judge_commit(commit, conversation.now)
        else:
            verdict = transactions.judge(ended.transactional_id, ended.producer_id, conversation.now)
        if verdict is WithinVerdict.HERE:
            return b""
        if verdict is WithinVerdict.COMMITTED:
            return commit_told(CommitAsked(ended.transactional_id, version, correlation, conversation.now), commit)
        return told_within(END_TXN, version, frame, verdict)

    def _judge(self, walk: ProduceWalk, version: int, correlation: int, frame: memoryview, acks_at: int) -> _Looked:
        """Judge a Produce that is there as a whole: refuse it, or forward it."""
        of = self._conversation.duties.of
        found = [(each, link) for each in walk.written if (link := of(each.topic)) is not None]
        refusals: Mapping[PartitionKey, int] = {
            (each.topic, each.partition): (
                codes.TRANSACTION_ABORTABLE if each.is_transactional else codes.NOT_ENOUGH_REPLICAS
            )
            for each, link in found
            if link.duty(is_transactional=each.is_transactional) is Duty.REFUSE
            and (version >= _ABORTABLE_FROM or not each.is_transactional)
        }
        serving, again, now = self._conversation.serving, self._conversation.again, self._conversation.now
        is_behind = not refusals and again.precedes(walk.written, now)
        refusals = refusals if refusals or is_behind else settle_request(walk, frame, serving, now)
        if refusals or is_behind:
            again.refuse(walk.written, refusals, now)
            return _Looked(answer=build_refusal(walk.written, refusals, version=version, correlation=correlation))
        again.take(walk.written)
        is_all = bytes(frame[acks_at : acks_at + 2]) == _ALL_ACKS_WRITTEN
        if not is_all and any(link.settings.raise_acks for _, link in found):
            frame[acks_at : acks_at + 2] = _ALL_ACKS_WRITTEN
            is_all = True
        is_owed = is_all and self._conversation.duties.links
        walked = walk if serving.carried else None
        return _Looked(owed=walk if is_owed else None, is_gathered=True, walked=walked)


class AnswerStream:
    """The stream from the broker to the client."""

    __slots__ = ("_again_at", "_conversation", "_expected", "_head", "_left", "begun", "gathered_bytes")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._expected = conversation.expected
        self._head = bytearray()
        self._again_at = 0
        self._left = 0
        self.gathered_bytes = 0
        """The size of the answer that is being gathered, if it is a large one; otherwise 0."""
        self.begun = 0
        """The number of answers that have begun to pass."""

    @property
    def is_between(self) -> bool:
        """Whether the last answer that was begun has passed as a whole."""
        return not self._left

    def take(self, chunk: memoryview) -> list[Leaving]:
        """Take bytes from the broker, and return what goes to the client: views of the chunk, and rewritten or held
        answers.

        :raises NotPassed: The connection is to be ended.
        """
        if self._head:
            self._head += chunk
            if len(self._head) < self._again_at:
                return []
            chunk, self._head = memoryview(self._head), bytearray()
        out: list[Leaving] = []
        begin = at = 0
        end = len(chunk)
        while at < end:
            rewritten: list[Leaving] = []
            step = min(self._left, end - at)
            if step:
                self._left -= step
            elif (found := self._begin(chunk, at)) is None:
                self._head += chunk[at:]
                break
            else:
                rewritten, step = found
            ours = self.ready()
            if rewritten or ours:
                cut = at if rewritten else at + step
                out += (chunk[begin:cut], *rewritten, *ours)
                begin = at + step
            at += step
        out.append(chunk[begin:at])
        return out

    def ready(self) -> list[Buffer]:
        """Return our own answers that are next in order."""
        out: list[Buffer] = []
        while not self._left and not self._head and self._expected and self._expected[0].answer:
            out.append(self._expected.popleft().answer)
        return out

    def _begin(self, chunk: memoryview, at: int) -> tuple[list[Leaving], int] | None:
        """Examine the answer that begins here. Return its rewritten form, empty if it passes as it is, and how many of
        its bytes were consumed; the rest passes. `None` if more of it is needed.
        """
        there = len(chunk) - at
        if there < _ANSWER.size:
            self._again_at = 0
            return None
        size, correlation = _ANSWER.unpack_from(chunk, at)
        if not self._expected:
            raise NotPassed("the broker sent an answer without a request")
        waiting = self._expected[0]
        if size < _ANSWER_BYTES_MIN or correlation != waiting.correlation:
            raise NotPassed(f"the broker answered {correlation} where {waiting.correlation} was next")
        whole = _SIZE.size + int(size)
        step = min(there, whole)
        try:
            rewritten = self._read(waiting, chunk[at : at + step], whole)
        except Short:
            if there >= whole:
                raise NotPassed(f"an answer to {PASSING[waiting.key].name} is cut off") from None
            if there > self._conversation.limits.answer_bytes:
                raise NotPassed(f"an answer to {PASSING[waiting.key].name} is too large to be rewritten") from None
            # Do not try again at every few bytes.
            self._again_at = whole if waiting.is_gathered else min(whole, 2 * there)
            self.gathered_bytes = whole if whole > self._conversation.limits.gathered_free_bytes else 0
            return None
        except ValueError as error:
            raise NotPassed(f"an answer to {PASSING[waiting.key].name} cannot be read: {error}") from None
        self._expected.popleft()
        self._left = whole - step
        self.gathered_bytes = 0
        self.begun += 1
        return rewritten, step

    def _read(self, waiting: Expected, frame: memoryview, whole: int) -> list[Leaving]:
        """Rewrite or hold an answer, by the part of its frame that is there; empty where it passes as it is."""
        if waiting.is_gathered and len(frame) < whole:
            raise Short
        if waiting.walked is not None:
            self._conversation.serving.carried.take_answer(
                waiting.walked, find_appended(read_acknowledgements(frame, waiting.version))
            )
        if waiting.is_dropped:
            return [b""]
        rewritten: list[Buffer] = []
        is_shown = waiting.key in SHOWING and bool(self._conversation.serving.hidden)
        if waiting.change or waiting.insertion or is_shown or is_rewritten(waiting.key, waiting.version):
            rewritten = self._rewrite(waiting, frame, whole - _SIZE.size)
        elif waiting.key == SASL_AUTHENTICATE:
            self._look_at_login(waiting, frame[_SIZE.size :])
        if waiting.owed is None:
            return [*rewritten]
        return [HeldAnswer(bytearray().join(rewritten or [frame]), waiting.version, waiting.owed)]

    def _rewrite(self, waiting: Expected, frame: memoryview, size: int) -> list[Buffer]:
        payload, key, version = frame[_SIZE.size :], waiting.key, waiting.version
        changes: list[Edit] = []
        if waiting.insertion is not None:
            changes += insert_items(_body_of(waiting, payload), waiting.insertion)
        if waiting.change is not None:
            changes += waiting.change(_body_of(waiting, payload))
        elif is_rewritten(key, version):
            changes += edits(key, version, payload, self._conversation.move)
        if key in SHOWING and self._conversation.serving.hidden:
            changes += leaders_hidden(key, version, _body_of(waiting, payload), self._conversation.serving.hidden)
        if not changes:
            return []
        grown = sum(edit.growth_bytes for edit in changes)
        if size + grown > _SIZE_MAX:
            raise ValueError(f"of {size} bytes, it cannot grow")
        return [_SIZE.pack(size + grown), *splice(payload, changes)]

    def _look_at_login(self, waiting: Expected, payload: memoryview) -> None:
        body = _body_of(waiting, payload)
        is_taken = body.int16() == 0
        body.skip_text()
        challenge = body.blob()
        # The login goes on where the broker sends a challenge: a first step of SCRAM, or an error of OAUTHBEARER.
        if is_taken and (not challenge or challenge.startswith(_SCRAM_DONE)):
            self._conversation.has_logged_in = True


def _may_become_other(links: Collection[SyncLink], acks: int, kinds: Collection[bool]) -> bool:
    """Whether a Produce about one of these links may be refused, or its acks raised."""
    if acks != _ALL_ACKS and any(link.settings.raise_acks for link in links):
        return True
    return any(link.duty(is_transactional=kind) is Duty.REFUSE for link in links for kind in kinds)


def _with_inserted(answer: bytes, version: int, insertion: Insertion) -> bytes:
    """Insert into our answer to a Produce the refusals of the topics that were cut out of the request."""
    payload, flexible = memoryview(answer)[_SIZE.size :], is_flexible(PRODUCE, version)
    found = b"".join(
        splice(payload, insert_items(response_body(payload, flexible=flexible, has_tags=flexible), insertion))
    )
    return _SIZE.pack(len(found)) + found


def _forget_epochs(frame: memoryview, sent: Iterable[PositionSent], common: Mapping[PartitionKey, int]) -> None:
    """Remove the leader epochs of positions up to where a partition equals that of the cluster that clients came from:
    they may be epochs of that cluster, and a consumer would wait for a leader that has reached them.
    """
    for each in sent:
        if each.epoch_at is not None and each.offset <= common.get(each.key, -1):
            _EPOCH.pack_into(frame, _SIZE.size + each.epoch_at, -1)


def _body_of(waiting: Expected, payload: memoryview) -> MessageCursor:
    flexible = is_flexible(waiting.key, waiting.version)
    return response_body(payload, flexible=flexible, has_tags=flexible)


def _is_offered(key: int, version: int) -> bool:
    passing = PASSING.get(key)
    return passing is not None and passing.version_min <= version <= passing.version_max


def _refusal(key: int, version: int, correlation: int) -> bytes:
    """Build our own answer to a request that does not pass.

    :raises NotPassed: There is no answer that the client would understand.
    """
    if key == API_VERSIONS:
        return refused_api_versions(correlation)
    passing = PASSING.get(key)
    if passing is None:
        raise NotPassed(f"messages with the key {key} do not pass")
    raise NotPassed(
        f"{passing.name} passes in versions {passing.version_min} to {passing.version_max}, not in version {version}"
    )


def _read_name(body: MessageCursor) -> str:
    text = (body.text() or "")[:_NAME_LENGTH_MAX]
    return text if text.isprintable() and text else "unknown"


def _describe_no_frame(size: int, head: bytes) -> str:
    for beginning, what in _LOOKS_LIKE.items():
        if head.startswith(beginning):
            return f"it speaks {what}, and no Kafka in the clear is spoken there"
    return f"a request of {size} bytes cannot be"
