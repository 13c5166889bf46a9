"""What the file says of configurations and access rules."""

from __future__ import annotations

import pytest
import yaml

from isthmus import config
from isthmus.cli.setup.config import resolve_configuration
from isthmus.errors import ConfigError
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.configuration import MetricsSettings
from isthmus.model.kafka.access import AccessPolicy, AccessSettings
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic
from tests.unit.config.refusing import linked

ORDERS, BILLS = SourceTopic("orders"), SourceTopic("bills")


def text(settings: str) -> str:
    """A file with one link that has these settings."""
    return linked(f"name: l, source: a, target: b, topics: {{include: [orders]}}, {settings}")


def link(settings: str) -> Link:
    """That link."""
    return config.parse(text(settings), environment={}).links[0]


def test_defaults_are_those_of_mirror_maker() -> None:
    """Configurations follow every ten minutes but for what differs from cluster to cluster; access rules do not."""
    settings = link("groups: {}")
    assert (settings.configs, settings.access) == (ConfigSettings(), AccessSettings())
    assert settings.configs.is_excluded("min.insync.replicas")
    assert settings.configs.is_excluded("remote.storage.enable")
    assert not settings.configs.is_excluded("retention.ms")
    assert settings.access.policy is AccessPolicy.OFF


def test_everything_can_be_said_otherwise() -> None:
    """Names, prefixes and expressions, for all topics and for some."""
    settings = link(
        "configs: {sync: true, exclude: ['flush.*', '/seg.+/'], use_defaults_from: source, interval_s: 5, "
        "keep: {'*': [retention.ms], 'ord*': ['delete.*']}}, "
        "access: {policy: read-only, exclude_principals: ['User:team-*'], interval_s: 7}"
    )
    configs, access = settings.configs, settings.access
    assert [configs.is_excluded(name) for name in ("flush.ms", "segment.ms", "min.insync.replicas")] == [
        True,
        True,
        False,
    ]
    assert [configs.keeps(ORDERS, "delete.retention.ms"), configs.keeps(BILLS, "delete.retention.ms")] == [True, False]
    assert configs.keeps(BILLS, "retention.ms")
    assert (configs.sync, configs.use_defaults_from, configs.interval_s) == (True, "source", 5.0)
    assert (access.policy, access.interval_s) == (AccessPolicy.READ_ONLY, 7.0)
    assert [access.at_target(who) for who in ("User:team-1", "User:alice")] == [None, "User:alice"]


@pytest.mark.parametrize("word", ["off", "'off'"])
def test_off_is_off(word: str) -> None:
    """YAML takes the bare word for a truth value."""
    assert link(f"access: {{policy: {word}}}").access.policy is AccessPolicy.OFF


def test_what_is_shown_can_be_read_again() -> None:
    """Kept overrides and policies are shown in the form of the file."""
    configuration = config.parse(text("configs: {keep: {'*': [a.b, 'c*']}}, access: {policy: full}"), environment={})
    again = config.parse(yaml.safe_dump(resolve_configuration(configuration)), environment={})
    assert again.links == configuration.links


@pytest.mark.parametrize(
    "settings",
    [
        "configs: {keep: {'*': ['/(/']}}",
        "configs: {keep: {'a b': [x]}}",
        "configs: {exclude: ['']}",
        "configs: {use_defaults_from: both}",
        "configs: {interval_s: 0}",
        "access: {policy: some}",
        "access: {exclude_principals: ['']}",
    ],
)
def test_what_cannot_be_meant_is_refused(settings: str) -> None:
    """With the place in the file."""
    with pytest.raises(ConfigError, match=r"links\[0\]"):
        link(settings)


def told(metrics: str) -> MetricsSettings:
    """What a file says that has this section."""
    return config.parse(f"{text('groups: {}')}\nmetrics: {metrics}\n", environment={}).metrics


def test_metrics_are_told_where_the_file_says() -> None:
    """Nowhere by default; at an address of this host only, unless more is asked for."""
    assert config.parse(text("groups: {}"), environment={}).metrics == MetricsSettings()
    assert told("{listen: '127.0.0.1:9464', partitions: true}") == MetricsSettings(
        listen="127.0.0.1:9464", partitions=True
    )
    assert told("{listen: '0.0.0.0:9464', any_interface: true}").any_interface
    with pytest.raises(ConfigError, match=r"metrics\.listen .*other hosts") as refused:
        told("{listen: '0.0.0.0:9464'}")
    assert "any_interface: true" in refused.value.hint
    with pytest.raises(ConfigError, match=r"metrics\.listen must be host:port"):
        told("{listen: '9464'}")
