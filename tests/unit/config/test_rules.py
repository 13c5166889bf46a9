"""What has to hold between the parts of a configuration."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.errors import ConfigError
from isthmus.model.offsets import EARLIEST, LATEST
from tests.unit.config.refusing import linked, refusal


def secured(security: str) -> str:
    """A configuration whose one cluster has this security section."""
    return f"clusters: {{a: {{bootstrap_servers: 'a:1', security: {{{security}}}}}}}"


@pytest.mark.parametrize(
    ("security", "protocol"),
    [
        ("", "PLAINTEXT"),
        ("tls: {ca_file: x}", "SSL"),
        ("tls: {}", "SSL"),
        ("mechanism: PLAIN, username: u, password: '${env:P}'", "SASL_SSL"),
        ("mechanism: PLAIN, username: u, password: '${env:P}', tls: {ca_file: x}", "SASL_SSL"),
        (
            "protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: u, password: '${env:P}'",
            "SASL_PLAINTEXT",
        ),
        ("protocol: SSL", "SSL"),
    ],
)
def test_protocol_follows_from_what_is_given(security: str, protocol: str) -> None:
    """Credentials are sent under TLS unless the protocol says otherwise."""
    configuration = config.parse(secured(security), environment={"P": "x"})

    assert configuration.cluster("a").security.protocol == protocol


@pytest.mark.parametrize(
    ("security", "says"),
    [
        ("username: u", "username contradicts the protocol PLAINTEXT"),
        ("protocol: SSL, mechanism: PLAIN", "mechanism contradicts the protocol SSL"),
        ("protocol: PLAINTEXT, tls: {ca_file: x}", "tls contradicts the protocol PLAINTEXT"),
        ("protocol: SASL_SSL", "mechanism is missing: SASL_SSL needs one"),
        ("mechanism: PLAIN, username: u", "password is missing: PLAIN needs it"),
        ("mechanism: SCRAM-SHA-256", "username is missing: SCRAM-SHA-256 needs it"),
        ("mechanism: OAUTHBEARER", "oauth is missing: OAUTHBEARER needs it"),
        (
            "mechanism: OAUTHBEARER, username: u, oauth: {token_endpoint_url: 'https://x', "
            "client_id: i, client_secret: s}",
            "username contradicts the mechanism OAUTHBEARER",
        ),
        (
            "mechanism: PLAIN, username: u, password: p, oauth: {token_endpoint_url: 'https://x', "
            "client_id: i, client_secret: s}",
            "oauth contradicts the mechanism PLAIN",
        ),
        ("tls: {key_file: x}", "tls.key_file is of no use without certificate_file"),
        ("tls: {key_password: x}", "tls.key_password is of no use without certificate_file"),
        ("mechanism: GSSAPI", "mechanism must be 'PLAIN', 'SCRAM-SHA-256'"),
        (
            "mechanism: OAUTHBEARER, oauth: {token_endpoint_url: 'file:///x', client_id: i, client_secret: s}",
            "oauth.token_endpoint_url must be an http or https address",
        ),
    ],
)
def test_contradictory_security_is_refused(security: str, says: str) -> None:
    """What cannot work together is refused before anything connects."""
    assert f"clusters.a.security.{says}" in refusal(secured(security))


@pytest.mark.parametrize("protocol", ["abc", "ssl"])
def test_a_protocol_is_one_of_kafkas(protocol: str) -> None:
    """Written as Kafka writes it; those there are are told."""
    assert "security.protocol must be 'PLAINTEXT', 'SSL'" in refusal(secured(f"protocol: {protocol}"))


def test_link_ends_are_clusters() -> None:
    """An alias that is not configured is an error that names the nearest one."""
    with pytest.raises(ConfigError) as caught:
        config.parse(linked("name: l, source: a, target: d").replace("b:", "delta:"))

    assert "isthmus.yaml:3: links[0].target is not the alias of a cluster" in str(caught.value)
    assert "The clusters are: a, delta, c." in caught.value.hint


def test_link_goes_from_one_cluster_into_another() -> None:
    """A cluster is not mirrored into itself."""
    assert "links[0].target is the source itself" in refusal(linked("name: l, source: a, target: a"))


def test_link_names_are_unique() -> None:
    """Two links of one name could not be told apart."""
    text = linked("name: l, source: a, target: b", "name: l, source: a, target: c")

    assert "isthmus.yaml:4: links[1].name is l, which is the name of links[0]" in refusal(text)


@pytest.mark.parametrize("name", ["spark.speculation", "spark.dynamicAllocation.enabled"])
def test_properties_of_spark_that_do_not_go_with_leases_are_refused(name: str) -> None:
    """A plan says so, not only a run."""
    text = linked("name: l, source: a, target: b") + f"spark: {{conf: {{{name}: 'true'}}}}\n"
    assert f"spark.conf.{name} is true, which " in refusal(text)
    config.parse(text.replace("true", "false"))


@pytest.mark.parametrize("pattern", ["__consumer_offsets", "__isthmus.*"])
def test_reserved_topics_cannot_be_included(pattern: str) -> None:
    """A pattern that can never match is a mistake."""
    text = linked(f"name: l, source: a, target: b, topics: {{include: ['{pattern}']}}")

    assert "topics.include[0] cannot match" in refusal(text)


@pytest.mark.parametrize(
    ("former", "latter"),
    [
        ("include: [t]", "include: [t]"),
        ("include: [t]", "include: ['*']"),
        ("include: ['/t+/']", "include: [t, u]"),
    ],
)
def test_topic_has_one_writer(former: str, latter: str) -> None:
    """Two links that write the same topic of the same cluster are refused."""
    text = linked(
        f"name: one, source: a, target: c, topics: {{{former}}}",
        f"name: two, source: b, target: c, topics: {{{latter}}}",
    )

    assert "links[1].topics writes t into c, which one does already" in refusal(text)


@pytest.mark.parametrize(
    ("former", "latter", "target"),
    [
        ("include: [t]", "include: [u]", "c"),
        ("include: [t]", "include: [t]", "a"),
        ("include: ['*']", "include: ['*']", "c"),
        ("include: ['*'], exclude: [t]", "include: [t]", "c"),
    ],
)
def test_links_without_a_common_topic_are_accepted(former: str, latter: str, target: str) -> None:
    """Different topics, different targets or patterns that prove nothing are left alone."""
    text = linked(
        f"name: one, source: a, target: c, topics: {{{former}}}",
        f"name: two, source: b, target: {target}, topics: {{{latter}}}",
    )

    assert len(config.parse(text).links) == 2


def topics(settings: str) -> str:
    """A link with these settings of its topics."""
    return linked(f"name: l, source: a, target: b, topics: {{include: [x], {settings}}}")


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ("offsets: mapped", EARLIEST),
        ("offsets: auto, start: latest", LATEST),
        ("offsets: mapped, start: 2026-01-01", 1_767_225_600_000),
        ("offsets: mapped, start: 1767225600000", 1_767_225_600_000),
        ("offsets: mapped, start: 2026-01-01T09:00+01:00", 1_767_254_400_000),
    ],
)
def test_mapped_topics_begin_anywhere(settings: str, start: int) -> None:
    """Words and points in time, also those that YAML takes for numbers and dates."""
    assert config.parse(topics(settings)).links[0].topics.start == start


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("start: latest", "start is latest, and the same offsets begin where the source begins"),
        ("offsets: mapped, start: soon", "neither earliest nor latest nor a point in time"),
        ("offsets: mapped, start: 2999-01-01", "lies in the future"),
        ("offsets: other", "offsets must be"),
        ("offsets: auto, start: latest, remote: leave", "topics.start also sets where to begin: latest"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(settings: str, says: str) -> None:
    """The same offsets have one beginning, and nobody can begin in the future."""
    assert says in refusal(topics(settings))


@pytest.mark.parametrize(("offsets", "is_refused"), [(("mapped", "mapped"), False), (("mapped", "same"), True)])
def test_links_that_map_offsets_may_share_a_topic(offsets: tuple[str, str], is_refused: bool) -> None:
    """Two links into one topic are a mistake unless both map their offsets."""
    text = linked(
        *(
            f"name: l{n}, source: {source}, target: c, topics: {{include: [x], offsets: {each}}}"
            for n, (source, each) in enumerate(zip("ab", offsets, strict=True))
        )
    )
    if is_refused:
        assert "writes x into c" in refusal(text)
    else:
        assert len(config.parse(text).links) == 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("offsets_copy: groups", "groups.offsets_copy is groups, and the link selects no groups"),
        ("offsets_copy: encrypted, include: [g]", "groups.offsets_copy is encrypted, and a has no secret"),
    ],
)
def test_a_copy_of_positions_needs_what_it_is_made_of(settings: str, says: str) -> None:
    """Groups to be copied, and a secret to derive keys from; all groups are copied without naming any."""
    assert says in refusal(linked(f"name: l, source: a, target: b, groups: {{{settings}}}"))
    (link,) = config.parse(linked("name: l, source: a, target: b, groups: {offsets_copy: all}"), environment={}).links
    assert link.groups.is_copied("any")
    assert not link.groups.is_copied("__isthmus.own")


def test_a_copy_of_positions_is_made_in_one_way() -> None:
    """Two links into one topic do not undo each other's redaction."""
    links = [
        f"name: {way}, source: a, target: b, groups: {{include: [g], offsets_copy: {way}}}" for way in ("all", "groups")
    ]
    assert "link groups copies into the same topic with groups" in refusal(linked(*links))


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    """It is to be as long as the keys that come from it, and is not repeated."""
    text = "clusters: {a: {bootstrap_servers: 'a:1', offsets_copy_secret: hunter2}}"
    assert "offsets_copy_secret" in refusal(text)
    assert "hunter2" not in refusal(text)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("transactions: {visibility: whole, aborted: omit}", "left out"),
        ("transactions: {visibility: whole}, topics: {include: [x], offsets: mapped}", "mapped"),
    ],
)
def test_transactions_cannot_be_whole_everywhere(more: str, says: str) -> None:
    """Where nobody knows before a transaction ends what becomes of its records."""
    topics = "" if "topics" in more else ", topics: {include: [x]}"
    assert says in refusal(linked(f"name: l, source: a, target: b, {more}{topics}"))
    config.parse(linked(f"name: l, source: a, target: b, {more.replace('whole', 'auto')}{topics}"), environment={})
