"""Configurations with one link, and why they are refused."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.errors import ConfigError


def refusal(text: str) -> str:
    """The message of the error that a configuration of this text ends in."""
    with pytest.raises(ConfigError) as caught:
        config.parse(text, environment={})
    assert caught.value.hint
    return str(caught.value)


def linked(*links: str) -> str:
    """A configuration with clusters a, b and c and these links."""
    clusters = ", ".join(f"{alias}: {{bootstrap_servers: '{alias}:1'}}" for alias in "abc")
    return f"clusters: {{{clusters}}}\nlinks:\n" + "".join(f"- {{{link}}}\n" for link in links)
