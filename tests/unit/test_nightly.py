"""The list of tests that are left to `make nightly`."""

from __future__ import annotations

from tests import nightly


def test_each_line_names_a_test() -> None:
    """A test that was renamed would come back into `make test`, and nobody would notice; nor a case that was, where
    its file is collected with this one.
    """
    listed = list(nightly.named())

    assert len(listed) == len(set(listed))
    for path, name in listed:
        function = name.partition("[")[0]
        assert f"def {function}(" in (nightly.LIST.parent / path).read_text(), f"{path} has no {function}"
    assert sorted(nightly.unmatched) == []


def test_each_file_has_its_place() -> None:
    """The list is ordered by files, and each of them stands there once."""
    files = [line for line in nightly.LIST.read_text().splitlines() if not line.startswith(" ")]

    assert files == sorted(set(files))
