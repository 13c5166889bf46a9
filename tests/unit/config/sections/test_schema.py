"""The shape of the configuration file, and finding one's way in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from isthmus.config.reading import keys
from isthmus.config.reading.document import Path
from isthmus.config.sections import fields, schema
from isthmus.config.sections.tls import TlsSection
from isthmus.config.sections.topics import TopicsSection

SIZE: TypeAdapter[int] = TypeAdapter(fields.Size)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        (1048576, 1048576),
        ("1048576", 1048576),
        ("512 B", 512),
        ("64KiB", 65536),
        ("5 kB", 5000),
        ("5 KB", 5000),
        ("50 MB", 50_000_000),
        ("50 MiB", 52_428_800),
        ("1.5 GiB", 1_610_612_736),
        ("2TB", 2 * 10**12),
    ],
)
def test_size(text: object, size_bytes: int) -> None:
    """Sizes are numbers of bytes, or numbers with a unit, decimal or binary."""
    assert SIZE.validate_python(text, strict=True) == size_bytes


@pytest.mark.parametrize("text", ["", "MiB", "-1", "50 MiB/s", "1e6", "1.5.2 MB", "50 hunter2", "12 secrets", True])
def test_unclear_size_is_refused(text: object) -> None:
    """Rates and anything that might mean something else are not guessed at, nor repeated: it may be a secret."""
    with pytest.raises(ValidationError) as refused:
        SIZE.validate_python(text, strict=True)
    assert "hunter2" not in refused.value.errors()[0]["msg"]
    assert "secrets" not in refused.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10 Mb", "has the unit Mb, which may mean bits: for bytes write 10 MB or 10 MiB"),
        ("10Kb", "has the unit Kb, which may mean bits: for bytes write 10 kB or 10 KiB"),
        ("1.5 gib", "has the unit gib, which may mean bits: for bytes write 1.5 GB or 1.5 GiB"),
        ("50 Mbit", "has the unit Mbit, which may mean bits: for bytes write 50 MB or 50 MiB"),
        ("7 b", "has the unit b, which may mean bits: for bytes write 7 B"),
        ("10 M", "has no clear unit: write 10 MB or 10 MiB"),
        ("10 ki", "has no clear unit: write 10 kB or 10 KiB"),
        ("10 mB", "has no clear unit: write 10 MB or 10 MiB"),
        ("10 MIB", "has no clear unit: write 10 MB or 10 MiB"),
    ],
)
def test_ambiguous_unit_is_refused_with_what_to_write(text: str, meant: str) -> None:
    """Whoever writes bits, or a unit in another case, is told both units that may be meant."""
    with pytest.raises(ValidationError) as refused:
        SIZE.validate_python(text, strict=True)
    assert meant in refused.value.errors()[0]["msg"]


@given(st.integers(1, 10**6), st.sampled_from(["KiB", "MiB", "GiB", "kB", "MB", "GB"]))
def test_size_is_proportional(count: int, unit: str) -> None:
    """A whole number of units is exactly that many times the unit."""
    one = SIZE.validate_python(f"1 {unit}")

    assert SIZE.validate_python(f"{count} {unit}") == count * one


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ((), schema.FabricSection),
        (("clusters", "east"), schema.ClusterSection),
        (("clusters", "east", "security", "tls"), TlsSection),
        (("links", 0), schema.LinkSection),
        (("links", 3, "topics"), TopicsSection),
        (("links", 0, "topics", "include"), None),
        (("spark", "conf"), None),
        (("nope", "nope"), None),
    ],
)
def test_section_at_a_path(path: Path, section: type[schema.Section] | None) -> None:
    """The path of a mistake leads to the keys that are known there."""
    assert keys.section_at(path) is section


def test_every_key_is_described() -> None:
    """The descriptions are the reference: none is missing, each is a sentence."""
    for section in keys.sections():
        assert section.__doc__
        for name, field in section.model_fields.items():
            assert (field.description or "").endswith("."), f"{section.__name__}.{name}"


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[3,3]", "spark://h:7077,g:7077", "yarn"])
def test_masters_that_spark_knows(master: str) -> None:
    """They are taken as they are."""
    assert schema.SparkSection.model_validate({"master": master}).master == master


@pytest.mark.parametrize("master", ["spork", "localhost:7077", "local[", "spark:7077"])
def test_a_master_that_cannot_be_is_refused(master: str) -> None:
    """Spark would tell it a minute later, in a stack trace."""
    with pytest.raises(ValidationError, match="spark://host:port"):
        schema.SparkSection.model_validate({"master": master})
