"""Failures of a lane: the state that each leads to, and how the lane recovers.

Three outcomes only: look at the logs again (`Resolver`), read elsewhere (`reroute`), or a terminal state that an
operator has to see. This module sends no requests.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from isthmus.engine.brokers.routes import Routes, SourceRoutes, TargetRoutes
from isthmus.engine.mapped.outlook import kept_at_target
from isthmus.engine.outlook import DENIED_RETRY_S, RETRY_S, state_of, too_few_replicas
from isthmus.engine.resolver import Resolver
from isthmus.engine.run import LaneRun
from isthmus.engine.same.ends import pass_gap
from isthmus.engine.state.writer import EXPLAINED, AppendVerdict
from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import Batch, crc_ok
from isthmus.kafka.log.fetch import SESSION_LOST, Fetched
from isthmus.model.kafka.rights import Right, grant, on_cluster, on_topic, on_transactional_id
from isthmus.model.lane import NO_END, Gap, LaneState
from isthmus.model.links.remedies import HeldOffsets, keep_or_delete, keep_or_delete_unknown
from isthmus.model.naming import SourceTopic
from isthmus.model.text.wording import format_count

_PASSING: Final = (
    codes.APPEND_PASSES
    | codes.COORDINATOR_MOVED
    | codes.PRODUCER_MOVED
    | {
        codes.NONE,
        codes.OUT_OF_ORDER_SEQUENCE_NUMBER,
        codes.CONCURRENT_TRANSACTIONS,
        codes.INVALID_TXN_STATE,
        codes.TRANSACTION_ABORTABLE,
    }
)
"""Answers to a write after which a look at the log shows how to go on."""
_REFUSED_PAUSE_MAX_S: Final = 1.0
_SLOW_REPLICAS: Final = frozenset({codes.REQUEST_TIMED_OUT, codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
_PASSES_HINT: Final = "It passes when the cluster has settled; if it stays, check that broker. Isthmus asks again."
_FENCED_HINT: Final = (
    "Another program writes under a producer id or a transactional id of this link, or a coordinator has ended its "
    "transaction: only Isthmus may use transactional ids that begin with `isthmus.`. Tried again every second."
)
_UNEXPECTED_HINT: Final = (
    "Look the error up in the log of that broker, or in the policies of the service; tried again every few seconds."
)


class Faulty(Protocol):
    """The part of the engine that the faults use."""

    def stop_reading(self, run: LaneRun) -> None: ...
    def reroute(self, run: LaneRun) -> None: ...
    def divert(self, run: LaneRun) -> None: ...


_REFUSED_HINT: Final = "Compare the configs of both topics (`isthmus plan` does); tried again every few seconds."
_CORRECT: Final = "Correct the transform, or have it leave out such records."
_KEYLESS_HINT: Final = (
    "Records without keys, from before the source was compacted, are refused by a topic that is compacted: set "
    "cleanup.policy=delete, retention.ms=-1 and retention.bytes=-1 on the target topic. The lane goes on by itself, "
    "and the link gives the topic its policy back when they are copied."
)


class Faults:
    """Decides for every failure of reading or writing how the lane goes on."""

    def __init__(self, engine: Faulty, resolver: Resolver, source: SourceRoutes, target: TargetRoutes) -> None:
        self._engine = engine
        self._resolver = resolver
        self._source = source
        self._target = target

    # Reading

    def misread(self, run: LaneRun, fetched: Fetched[SourceTopic]) -> None:
        """Handle an answer that shows that the lane cannot be read where it is read now."""
        code = fetched.error_code
        self._engine.stop_reading(run)
        if run.is_over:
            return
        if 0 <= fetched.diverged_at < min(fetched.offset, run.copied_to):
            run.fail(
                LaneState.DIVERGED,
                f"the source's log was truncated to {fetched.diverged_at} (unclean leader election); offsets "
                f"[{fetched.diverged_at}, {run.copied_to}) that were copied are gone there",
                self._advise(run, fetched.diverged_at),
            )
            run.disprove(fetched.diverged_at)
        elif fetched.diverged_at >= 0:
            self._doubt_source(run, fetched.diverged_at)
        elif code == codes.OFFSET_OUT_OF_RANGE:
            self._handle_out_of_range(run, fetched)
        elif code == codes.CORRUPT_MESSAGE:
            self.note_unreadable(run, "its broker answers CORRUPT_MESSAGE")
        elif code in codes.AUTHORIZATION:
            _fail_denied(run, "the source does not allow reading", self._source, on_topic("READ", run.source[0]))
            self._resolver.add(run, DENIED_RETRY_S)
        elif code in (codes.UNKNOWN_TOPIC_ID, codes.INCONSISTENT_TOPIC_ID):
            run.hinder(LaneState.SOURCE_UNAVAILABLE, _source_answer(run, code), _PASSES_HINT)
            self._source.forget(*run.source)
            self._resolver.add(run, RETRY_S)
        else:
            if code in SESSION_LOST:
                run.hinder(LaneState.SOURCE_UNAVAILABLE, _source_answer(run, code), _PASSES_HINT)
            else:
                run.fail(LaneState.SOURCE_UNAVAILABLE, _source_answer(run, code), _PASSES_HINT)
            self._source.forget(*run.source)
            self._engine.reroute(run)

    def _advise(self, run: LaneRun, begin: int) -> str:
        """Advise the operator about offsets from `begin` on that only the target has now."""
        if run.lane.is_mapped:
            return kept_at_target(run.lane)
        held = HeldOffsets(run.target[1], begin, run.next_offset)
        return keep_or_delete(run.target[0], self._target.client.cluster, [held])

    def _handle_out_of_range(self, run: LaneRun, fetched: Fetched[SourceTopic]) -> None:
        if run.intake.has_waiting:
            # The pieces read before the records were deleted can still be written; the gap begins behind them.
            run.intake.cut()
        elif run.lane.is_mapped or run.lane.continues_after_gap:
            self._doubt_source(run)
        elif fetched.log_start > run.intake.read_offset == run.position:
            pass_gap(run, Gap(run.position, fetched.log_start), self._target.client.cluster)
        else:
            # The reason may be either end of the source's log, or an epoch it never had; a look at both logs shows it.
            self._doubt_source(run)

    def _doubt_source(self, run: LaneRun, lost_from: int = NO_END) -> None:
        """The source does not have the records that were read last: they were not copied yet, or the records of that
        epoch have been compacted away, or the log is another one. Compare the source with the target, and read again.
        """
        run.intake.spoil()
        run.hinder(
            LaneState.SOURCE_UNAVAILABLE,
            f"the source answers again and again that its log of {run.lane.key} has another place than offset "
            f"{run.intake.read_offset} to go on from",
            "`isthmus verify` compares both logs. The lane looks at both of them, and goes on by itself.",
        )
        run.intake.forget_epoch()
        if run.transit is None:
            run.belief.doubt()
        else:
            run.transit.doubt(lost_from)
        self._resolver.add(run, RETRY_S)

    def note_unreadable(self, run: LaneRun, what: str, offset: int = -1) -> None:
        """Handle damaged records of the source at an offset, -1 for `read_offset`."""
        self._engine.stop_reading(run)
        if run.intake.has_waiting:
            # The pieces read before can still be written.
            run.intake.cut()
        else:
            self.block_damaged(run, run.intake.read_offset if offset < 0 else offset, what)
            self._resolver.add(run, DENIED_RETRY_S)

    def block_unchanged(self, run: LaneRun, offset: int, reason: str, cannot: str, hint: str, state: LaneState) -> None:
        """Stop in this state before a record of the source that the lane's transform cannot change, or that cannot be
        treated as its policy says; without a `hint` it is the transform that has to be corrected.
        """
        self._engine.stop_reading(run)
        if run.intake.has_waiting:
            # The records before can still be written.
            run.intake.cut()
            return
        if run.transit is not None:
            # Records that were left out before this one need not be changed again.
            run.transit.passed(run.intake.read_epoch)
        run.fail(
            state,
            f"the record at offset {offset} of {run.source[0]}-{run.source[1]} cannot {cannot}: {reason}",
            f"All records before it are copied. {hint or _CORRECT} Isthmus tries again every few seconds.",
        )
        self._resolver.add(run, DENIED_RETRY_S)

    def await_schema(self, run: LaneRun, schema_id: int) -> None:
        """Wait: the next record has a schema that the target's registry is not known to hold."""
        self._engine.stop_reading(run)
        if run.intake.has_waiting:
            # The pieces read before can still be written.
            run.intake.cut()
            return
        alias = self._target.client.cluster.alias
        run.fail(
            LaneState.BLOCKED,
            f"records from offset {run.intake.read_offset} on wait for schema {schema_id}, which is not known to be in "
            f"the schema registry of {alias}",
            "It comes as soon as the primary registry has it and that of the target can be reached: isthmus status -o "
            "json shows the loop schemas, isthmus schemas diff the missing schemas. If it is no id of a schema, take "
            "the "
            "topic out of schemas.gate.",
        )
        self._resolver.add(run, DENIED_RETRY_S)

    def sent_away(self, run: LaneRun, leader: int, replica: int) -> None:
        """The source's leader returns no records: its brokers are configured to send readers to a replica."""
        self._engine.stop_reading(run)
        run.fail(
            LaneState.SOURCE_UNAVAILABLE,
            f"broker {leader}, which leads {run.lane.key} at the source, has its readers read from replica {replica} "
            "(KIP-392), and Isthmus reads from leaders",
            "Have the brokers' replica.selector.class name the leader to clients without a rack, as Kafka's "
            "RackAwareReplicaSelector does. The lane looks again every few seconds.",
        )
        self._resolver.add(run, DENIED_RETRY_S)

    def block_damaged(self, run: LaneRun, offset: int, what: str) -> None:
        """Block the lane: bytes of the source are damaged."""
        run.fail(
            LaneState.BLOCKED,
            f"the source delivers corrupt bytes at offset {offset}: {what}",
            "Check the source broker's disk (kafka-dump-log --deep-iteration names the batch). Isthmus reads again "
            "every few seconds and goes on when the bytes are whole.",
        )

    def source_lost(self, runs: list[LaneRun], error: ClusterError) -> None:
        """Handle a source broker that does not answer."""
        for run in runs:
            self._engine.stop_reading(run)
            run.fail(state_of(error, LaneState.SOURCE_UNAVAILABLE), str(error), error.hint)
            self._source.forget(*run.source)
            self._engine.reroute(run)

    # Writing

    def handle_verdict(
        self,
        run: LaneRun,
        verdict: AppendVerdict,
        error_code: int,
        message: str | None = None,
        sent: Batch | None = None,
    ) -> None:
        """Handle an append that did not succeed. `sent` is the batch that was sent, maybe joined of several pieces."""
        name = codes.name_of(error_code)
        reason = f"{name}: {message}" if message else name
        match verdict:
            case AppendVerdict.BROKEN:
                run.fail(
                    LaneState.FOREIGN_WRITE,
                    f"a batch for target offset {run.writer.position} was appended elsewhere ({reason}): another "
                    "producer writes to the partition",
                    "Deny WRITE on the target topic to all but Isthmus. "
                    + keep_or_delete_unknown(run.target[0], self._target.client.cluster, run.target[1]),
                )
            case AppendVerdict.DENIED:
                rights = on_topic("WRITE", run.target[0]), on_cluster("IDEMPOTENT_WRITE")
                missing = codes.missing_right(error_code, *rights, on_transactional_id("WRITE"))
                _fail_denied(run, f"the target does not allow writing ({reason})", self._target, missing)
                self._resolver.add(run, DENIED_RETRY_S)
            case AppendVerdict.TOO_LARGE:
                self._handle_too_large(run, reason, sent)
            case AppendVerdict.REFUSED if error_code == codes.CORRUPT_MESSAGE and sent is not None and not crc_ok(sent):
                run.intake.spoil()
                self.block_damaged(
                    run, sent.base_offset, f"the checksum of the batch at offset {sent.base_offset} is wrong"
                )
                self._resolver.add(run, DENIED_RETRY_S)
            case AppendVerdict.REFUSED:
                run.fail(
                    LaneState.BLOCKED,
                    f"the target refuses the batch at offset {run.position} ({reason})",
                    _KEYLESS_HINT if error_code == codes.INVALID_RECORD and run.lane.is_compacted else _REFUSED_HINT,
                )
                self._resolver.add(run, DENIED_RETRY_S)
            case _:
                self._look_again(run, error_code, reason)

    def _look_again(self, run: LaneRun, error_code: int, reason: str) -> None:
        delay_s = 0.0
        if error_code not in _PASSING | EXPLAINED:
            run.fail(
                LaneState.BLOCKED,
                f"the target's leader of {run.lane.key} answers {reason} to a write at offset {run.position}",
                _UNEXPECTED_HINT,
            )
            delay_s = DENIED_RETRY_S
        elif error_code == codes.NOT_ENOUGH_REPLICAS:
            problem = too_few_replicas(run.lane.key)
            run.fail(LaneState.TARGET_UNAVAILABLE, problem.message, problem.hint)
            delay_s = RETRY_S
        elif run not in self._resolver:
            # Requests behind the one that failed are refused too, and prove nothing more.
            delay_s = _pause_s(run.hinder(*_describe_repeated_refusal(run, error_code, reason)))
        self._target.forget(*run.target)
        self._resolver.add(run, delay_s)

    def _handle_too_large(self, run: LaneRun, reason: str, sent: Batch | None) -> None:
        if sent is None or sent.record_count == 1:
            size_bytes = 0 if sent is None else sent.size_bytes
            run.fail(
                LaneState.BLOCKED,
                f"the record at offset {run.position} ({format_count(size_bytes, 'byte')}) is too large for "
                f"the target ({reason})",
                f"Raise max.message.bytes of the target topic {run.lane.target_topic}; the lane goes on by itself.",
            )
            self._resolver.add(run, DENIED_RETRY_S)
            return
        # The limit was lowered, or compression differs: halve this lane's batches until they fit.
        run.limit_batches(max(sent.size_bytes // 2, 1))
        self._engine.divert(run)

    def append_lost(self, runs: list[LaneRun], error: ClusterError) -> None:
        """Handle a target broker that does not answer: only a look at the log shows whether the bytes are in it."""
        for run in runs:
            self.write_failed(run, error)

    def write_failed(self, run: LaneRun, error: ClusterError) -> None:
        """Handle a request for one lane that failed at the target."""
        if isinstance(error, BrokerRefused) and error.code not in _PASSING:
            state, hint = LaneState.BLOCKED, _UNEXPECTED_HINT
        else:
            state, hint = state_of(error, LaneState.TARGET_UNAVAILABLE), error.hint
        run.fail(state, str(error), hint)
        self._target.forget(*run.target)
        self._resolver.add(run, 0.0 if state is LaneState.TARGET_UNAVAILABLE else DENIED_RETRY_S)


def _describe_repeated_refusal(run: LaneRun, error_code: int, reason: str) -> tuple[LaneState, str, str]:
    """Return state, message and hint for an error that usually passes, in case it does not."""
    what = f"the target's leader of {run.lane.key} answers {reason} again and again to writes at offset "
    what += str(run.position)
    if error_code in codes.LEADER_MOVED | codes.COORDINATOR_MOVED | _SLOW_REPLICAS:
        return LaneState.TARGET_UNAVAILABLE, what, "Check that broker and the replicas; the lane goes on by itself."
    if error_code == codes.INVALID_PRODUCER_EPOCH:
        return LaneState.BLOCKED, what, _FENCED_HINT
    return LaneState.BLOCKED, what, _UNEXPECTED_HINT


def _source_answer(run: LaneRun, code: int) -> str:
    return f"the source's leader of {run.lane.key} says {codes.name_of(code)}"


def _pause_s(times: int) -> float:
    """The wait in seconds before the next look at a lane that was refused `times` times at one place."""
    return 0.0 if times <= 1 else min(RETRY_S * 2 ** min(times - 2, 8), _REFUSED_PAUSE_MAX_S)


def _fail_denied(run: LaneRun, what: str, routes: Routes[Any], missing: Right) -> None:
    advice = grant(missing, routes.client.cluster.alias, "the lane goes on by itself")
    run.fail(LaneState.NOT_AUTHORIZED, f"{what}: {missing} is missing", advice)
