"""The shape of the configuration file, and finding one's way in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from isthmus.config import schema
from isthmus.config.document import Path

SIZE: TypeAdapter[int] = TypeAdapter(schema.Size)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        (1048576, 1048576),
        ("1048576", 1048576),
        ("512 B", 512),
        ("64KiB", 65536),
        ("50 MB", 50_000_000),
        ("50 mib", 52_428_800),
        ("1.5 GiB", 1_610_612_736),
    ],
)
def test_size(text: object, size_bytes: int) -> None:
    """Sizes are numbers of bytes, or numbers with a unit, decimal or binary."""
    assert SIZE.validate_python(text, strict=True) == size_bytes


@pytest.mark.parametrize("text", ["", "MiB", "-1", "50 Mbit", "50 MiB/s", "1e6", "1.5.2 MB", True])
def test_unclear_size_is_refused(text: object) -> None:
    """Bits, rates and anything that might mean something else are not guessed at."""
    with pytest.raises(ValidationError):
        SIZE.validate_python(text, strict=True)


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
        (("clusters", "east", "security", "tls"), schema.TlsSection),
        (("links", 0), schema.LinkSection),
        (("links", 3, "topics"), schema.TopicsSection),
        (("links", 0, "topics", "include"), None),
        (("spark", "conf"), None),
        (("nope", "nope"), None),
    ],
)
def test_section_at_a_path(path: Path, section: type[schema.Section] | None) -> None:
    """The path of a mistake leads to the keys that are known there."""
    assert schema.section_at(path) is section


def test_every_key_is_described() -> None:
    """The descriptions are the reference: none is missing, each is a sentence."""
    for section in schema.sections():
        assert section.__doc__
        for name, field in section.model_fields.items():
            assert (field.description or "").endswith("."), f"{section.__name__}.{name}"
