"""Answers about access rules and quotas that prove nothing: of a controller that lost its office, of a broker that
names none. No real broker can be made to give them at the right moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kafka.protocol.admin.acl import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from isthmus.access.loop import AccessLoop
from isthmus.access.quotas import QuotasLoop
from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.access import rules_by_broker
from isthmus.kafka.admin.quotas import quotas_anywhere
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import list_groups
from isthmus.kafka.metadata import NO_TOPIC_ID, Broker, Metadata, TopicMetadata
from isthmus.ledger.documents.access import AccessDocument
from isthmus.ledger.documents.document import Document
from isthmus.ledger.documents.quotas import QuotaDocument
from isthmus.ledger.records import Deletion
from isthmus.loops.loop import LinkView
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.access import AccessPolicy, AccessSettings
from isthmus.model.kafka.rights import Resource
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.plan import Action, LinkPlan, TopicPlan

NODE: Final = 1
READING: Final = (2, "orders", 3, "User:alice", "*", 3, 3)
"""READ by alice on topic orders, in the numbers of the protocol."""
Acl = tuple[int, str, int, str, str, int, int]


class Secured(Client):
    """A cluster of one broker that knows rules and quotas of users. What is changed is changed, and `code` is said. Who
    asks any broker meets one that is behind: it knows nothing, or rules that were `revoked`.
    """

    def __init__(self, alias: str) -> None:
        super().__init__(Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)))
        self.rules: set[Acl] = set()
        self.quotas: dict[str, float] = {}
        self.code = codes.NONE
        self.is_behind = False
        self.is_alone = False
        self.revoked: set[Acl] = set()

    async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
        """Its broker, unless that has not been let in yet; no topics."""
        brokers: Mapping[int, Broker] = {} if self.is_alone else {NODE: Broker(NODE, "127.0.0.1", 1, None)}
        code = codes.UNKNOWN_TOPIC_OR_PARTITION
        named = {name: TopicMetadata(name, NO_TOPIC_ID, (), code, False) for name in topics or ()}
        return Metadata(cluster_id="id", controller_id=NODE, brokers=brokers, topics=named)

    async def any(self, request: Any, **more: Any) -> Any:
        """What any broker answers."""
        match request:
            case DescribeAclsRequest():
                return self._described(request)
            case DescribeClientQuotasRequest():
                return self._limits()
            case CreateAclsRequest():
                made = {self._acl(each) for each in request.creations}
                self.rules |= made
                return _Said(results=[_Said(error_code=self.code, error_message=None) for _ in made])
            case DeleteAclsRequest():
                self.rules -= {self._filtered(each) for each in request.filters}
                said = _Said(error_code=self.code, error_message=None, matching_acls=[])
                return _Said(filter_results=[said for _ in request.filters])
        raise AssertionError(request)

    async def broker(self, node_id: int, request: Any, **more: Any) -> Any:
        """What that broker answers."""
        revoked, self.revoked = self.revoked, set()
        try:
            return await self.any(request)
        finally:
            self.revoked = revoked

    async def controller(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        """What the controller answers."""
        assert isinstance(request, AlterClientQuotasRequest)
        for entry in request.entries:
            for op in entry.ops:
                self.quotas.pop(entry.entity[0].entity_name, None)
                if not op.remove:
                    self.quotas[entry.entity[0].entity_name] = op.value
        told = [_Said(error_code=self.code, error_message=None, entity=entry.entity) for entry in request.entries]
        return _Said(entries=told)

    def _described(self, request: Any) -> Any:
        every = [] if self.is_behind else [*self.rules, *self.revoked]
        found = [each for each in every if each[0] == request.resource_type_filter]
        fields = ("principal", "host", "operation", "permission_type")
        return _Said(
            error_code=0,
            resources=[
                _Said(resource_name=name, pattern_type=pattern, acls=[_Said(**dict(zip(fields, rest, strict=True)))])
                for _, name, pattern, *rest in found
            ],
        )

    def _limits(self) -> Any:
        return _Said(
            error_code=0,
            error_message=None,
            entries=[
                _Said(
                    entity=[_Said(entity_type="user", entity_name=user)],
                    values=[_Said(key="producer_byte_rate", value=value)],
                )
                for user, value in self.quotas.items()
                if not self.is_behind
            ],
        )

    @staticmethod
    def _acl(each: Any) -> Acl:
        rest = (each.principal, each.host, each.operation, each.permission_type)
        return (each.resource_type, each.resource_name, each.resource_pattern_type, *rest)

    @staticmethod
    def _filtered(each: Any) -> Acl:
        rest = (each.principal_filter, each.host_filter, each.operation, each.permission_type)
        return (each.resource_type_filter, each.resource_name_filter, each.pattern_type_filter, *rest)


class _Said:
    """An answer, or a part of one."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class Pass:
    """One loop between two clusters, and what the ledger holds."""

    def __init__(self, loop: AccessLoop | QuotasLoop) -> None:
        self.source, self.target, self.loop = Secured("east"), Secured("west"), loop
        self.documents: dict[str, Document] = {}
        maps = (NamespaceMap.parse("User:", "principal"),) if isinstance(loop, QuotasLoop) else ()
        topics = TopicSettings(include=(TopicPattern.parse("orders"),))
        link = Link(name="l", source=self.source.cluster, target=self.target.cluster, topics=topics)
        self.link = replace(link, access=AccessSettings(policy=AccessPolicy.FULL, principals=maps))

    async def run(self) -> list[Change]:
        """Look and change; what was left."""
        plan = TopicPlan(topic=TargetTopic("orders"), source_topic=SourceTopic("orders"), action=Action.COPY)
        view = LinkView(
            link=self.link,
            source=self.source,
            target=self.target,
            plan=LinkPlan(link="l", source="east", target="west", topics=(plan,)),
            documents=self.documents,
            remember=self._remember,
        )
        return list(await self.loop.apply(view, await self.loop.look(view)))

    async def _remember(self, *changes: Document | Deletion) -> None:
        for change in changes:
            self.documents.pop(change.key, None)
            if isinstance(change, Document):
                self.documents[change.key] = change


@pytest.mark.parametrize("code", [codes.REQUEST_TIMED_OUT, codes.NOT_CONTROLLER, codes.UNKNOWN_SERVER_ERROR])
def test_a_rule_that_was_made_all_the_same_is_taken_back(code: int) -> None:
    """A controller that loses its office says that it made no rule, or deleted none, which its peers have: the rule
    stays ours, and goes with the source's.
    """

    async def scenario() -> None:
        passes = Pass(AccessLoop())
        passes.source.rules, passes.target.code = {READING}, code
        (left,) = await passes.run()
        assert left.problem is not None
        assert passes.target.rules == {READING}
        (document,) = passes.documents.values()
        assert isinstance(document, AccessDocument)
        assert not document.is_certain
        assert await passes.run() == []
        passes.source.rules = set()
        (left,) = await passes.run()
        assert left.problem is not None
        assert (passes.target.rules, len(passes.documents)) == (set(), 1)
        passes.target.code = codes.NONE
        for _ in range(2):
            assert await passes.run() == []
        assert passes.documents == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [codes.REQUEST_TIMED_OUT, codes.NOT_CONTROLLER, codes.UNKNOWN_SERVER_ERROR])
def test_a_quota_that_was_set_all_the_same_is_taken_back(code: int) -> None:
    """As with rules: it does not become somebody else's."""

    async def scenario() -> None:
        passes = Pass(QuotasLoop())
        passes.source.quotas, passes.target.code = {"ann": 5.0}, code
        (left,) = await passes.run()
        assert left.problem is not None
        assert passes.target.quotas == {"ann": 5.0}
        assert await passes.run() == []
        passes.source.quotas, passes.target.code = {}, codes.NONE
        assert await passes.run() == []
        assert (passes.target.quotas, passes.documents) == ({}, {})

    asyncio.run(scenario())


def test_a_target_that_is_behind_makes_nothing_somebody_elses() -> None:
    """A quota that one broker of the target does not know yet is not forgotten: it would stay there for good."""

    async def scenario() -> None:
        passes = Pass(QuotasLoop())
        passes.source.quotas = {"ann": 5.0}
        assert await passes.run() == []
        passes.source.quotas, passes.target.is_behind = {}, True
        assert await passes.run() == []
        assert [type(each) for each in passes.documents.values()] == [QuotaDocument]
        passes.target.is_behind = False
        assert await passes.run() == []
        assert (passes.target.quotas, passes.documents) == ({}, {})

    asyncio.run(scenario())


def test_who_names_no_broker_does_not_say_that_something_is_gone() -> None:
    """A broker that has not been let in answers with a cluster of none: no rule, quota or group is gone by that."""

    async def scenario() -> None:
        passes = Pass(AccessLoop())
        passes.source.rules = {READING}
        assert await passes.run() == []
        passes.source.is_behind = passes.source.is_alone = True
        (left,) = await passes.run()
        assert left.problem is not None
        assert passes.target.rules == {READING}
        quotas = Pass(QuotasLoop())
        quotas.source.quotas = {"ann": 5.0}
        assert await quotas.run() == []
        quotas.source.is_behind = quotas.source.is_alone = True
        (waiting,) = await quotas.run()
        assert waiting.problem is not None
        assert quotas.target.quotas == {"ann": 5.0}
        for asked in (rules_by_broker(passes.source, Resource.TOPIC), quotas_anywhere(passes.source)):
            with pytest.raises(Unreachable):
                await asked
        with pytest.raises(Unreachable):
            await list_groups(passes.source)

    asyncio.run(scenario())


def test_a_source_that_is_behind_gives_no_right_back() -> None:
    """A rule that was taken away, and that one broker still tells, is not made again; a DENY is, whoever tells it."""

    async def scenario() -> None:
        passes = Pass(AccessLoop())
        denying = (*READING[:6], 2)
        passes.source.revoked = {READING, denying}
        (left,) = await passes.run()
        assert left.problem is not None
        assert "a broker of the source does not know the rule" in left.problem.message
        assert passes.target.rules == {denying}
        passes.source.revoked, passes.source.rules = set(), {READING}
        assert await passes.run() == []
        assert passes.target.rules == {READING}

    asyncio.run(scenario())
