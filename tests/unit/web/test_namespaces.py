"""What of a namespace can be changed."""

from __future__ import annotations

from inspect import signature

import pytest
from pydantic import ValidationError

from isthmus.control.clusters.namespaces import AsyncNamespaces
from isthmus.web.bodies import NamespaceChangeBody


def test_a_namespace_keeps_its_prefix_and_its_kind() -> None:
    """No verb takes another one: what has another prefix or kind is another namespace."""
    assert set(signature(AsyncNamespaces.update).parameters) == {
        "self",
        "namespace",
        "reserved",
        "async_only",
        "dry_run",
    }
    for member in ("prefix", "namespace", "kind", "exact"):
        with pytest.raises(ValidationError, match=member):
            NamespaceChangeBody.model_validate({member: "other"})
