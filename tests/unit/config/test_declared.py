"""Settings of declared links and trees, by their keys."""

from __future__ import annotations

import pytest

from isthmus.config.declared import check_unset, declared_link
from isthmus.config.sections.schema import LinkSection
from isthmus.config.sections.section import Section
from isthmus.config.sections.trees import TreeSection
from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.model.links.declaration import Declaration
from isthmus.model.registers import SETTINGS, Author, change_registers

ENDS = Cluster(alias="a", bootstrap_servers=("a:1",)), Cluster(alias="b", bootstrap_servers=("b:1",))


@pytest.mark.parametrize(
    ("key", "hint"), [("foo", "Known here: name, source, "), ("limits.bytes_per", "Did you mean bytes_per_s? ")]
)
def test_an_unknown_key_is_refused_with_those_of_a_link(key: str, hint: str) -> None:
    """Not with those at the top of the file; the same whether it is set or goes back to its default."""
    registers = change_registers((), {f"{SETTINGS}{key}": 1}, Author(by="me", at_ms=1, where="cluster"))
    with pytest.raises(ConfigError) as set_:
        declared_link(Declaration(name="a-b", registers=registers), *ENDS)
    with pytest.raises(ConfigError) as unset:
        check_unset([key])
    assert set_.value.message == f"link a-b: {key} is not a known key"
    assert unset.value.message == f"{key} is not a known key"
    assert set_.value.hint == unset.value.hint
    assert set_.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("root", "key", "known"),
    [
        (LinkSection, "limits", True),
        (LinkSection, "properties.target.send.buffer.bytes", True),
        (LinkSection, "sync.raise_acks", True),
        (LinkSection, "transform.set.a.b", True),
        (LinkSection, "transform.foo", False),
        (LinkSection, "topics.include.foo", False),
        (LinkSection, "on_data_gap.stop", False),
        (TreeSection, "topics", True),
        (TreeSection, "foo", False),
    ],
)
def test_what_goes_back_to_its_default_is_a_key(root: type[Section], key: str, known: bool) -> None:
    """Of a section, of a section in it, or of a map; a plain value has none."""
    if known:
        check_unset([key], root)
        return
    with pytest.raises(ConfigError, match="is not a known key"):
        check_unset([key], root)
