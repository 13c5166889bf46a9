"""What is to be done so that a registry holds what the primary holds: in order, and never over something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.naming import NameTemplate
from isthmus.model.schemas.content import RegistryContents, Schema, SchemaReference, SchemaVersion, VersionKey
from isthmus.model.schemas.subjects import SubjectNaming
from isthmus.schemas.planning import RegistryPair, SchemaChange, SchemaVerb, known_ids, plan_schemas

ADDRESS = Schema(text='{"type":"record","name":"Address","fields":[]}')


def version(subject: str, number: int, schema_id: int, text: str = "", *refs: tuple[str, int]) -> SchemaVersion:
    """A version whose schema says its id, unless it has a text."""
    references = tuple(SchemaReference(f"{name} {each}", name, each) for name, each in refs)
    schema = Schema(text=text or f'{{"type":"fixed","name":"F","size":{schema_id}}}', references=references)
    return SchemaVersion(subject=subject, version=number, id=schema_id, schema=schema)


def holding(*versions: SchemaVersion, **more: Any) -> RegistryContents:
    """A registry with these versions."""
    return replace(RegistryContents(versions={each.key: each for each in versions}), **more)


def planned(
    held: RegistryContents,
    there: RegistryContents,
    *,
    naming: SubjectNaming | None = None,
    distributed: Mapping[VersionKey, str] | None = None,
    delete_gone: bool = False,
) -> tuple[SchemaChange, ...]:
    """The plan from east to west."""
    pair = RegistryPair(
        primary="east",
        target="west",
        held=held,
        there=there,
        naming=naming or SubjectNaming(),
        distributed=distributed or {},
    )
    return plan_schemas(pair, delete_gone=delete_gone)


def told(changes: Iterable[SchemaChange]) -> list[str]:
    """What is to be done, in a word each."""
    return [f"{change.verb}{' refused' if change.problem else ''} {change.what}" for change in changes]


def test_references_come_before_referrers() -> None:
    """What a schema refers to is registered first, whatever it is called, and versions follow one another."""
    held = holding(version("a", 1, 3, "", ("z", 2)), version("z", 1, 1), version("z", 2, 2))
    assert told(planned(held, holding())) == ["register z version 1", "register z version 2", "register a version 1"]


def test_nothing_is_to_be_done_twice() -> None:
    """A registry that holds the same is left alone, however its texts are written."""
    held = holding(version("a", 1, 1, '{"type": "string"}'))
    assert planned(held, holding(version("a", 1, 1, '"string"'))) == ()


def test_an_id_that_another_schema_has() -> None:
    """It is refused with both named, and so is what needs it; the rest goes on."""
    held = holding(version("a", 1, 7), version("a", 2, 8), version("b", 1, 9, "", ("a", 1)), version("c", 1, 10))
    changes = planned(held, holding(version("other", 3, 7, '"long"')))
    assert told(changes) == [
        "register refused a version 1",
        "register refused a version 2",
        "register refused b version 1",
        "register c version 1",
        "keep other version 3",
    ]
    problem = changes[0].problem
    assert problem is not None
    assert problem.code == "ISTH-SCHEMA-CONFLICT"
    assert "a version 1" in problem.message
    assert "other version 3" in problem.message


def test_a_schema_of_two_subjects_has_one_id() -> None:
    """The same schema under another subject there is no conflict."""
    held = holding(version("a", 1, 7, '"long"'), version("b", 1, 7, '"long"'))
    assert told(planned(held, holding(version("a", 1, 7, '"long"')))) == ["register b version 1"]


def test_a_version_that_is_another_schema() -> None:
    """What somebody else registered at that place is never overwritten."""
    changes = planned(holding(version("a", 1, 7)), holding(version("a", 1, 2)))
    assert told(changes) == ["register refused a version 1"]
    assert "id 2" in str(changes[0].problem)


def test_deletions_follow() -> None:
    """Softly deleted there, deleted softly here, after all was registered; and taken back again."""
    gone = replace(version("a", 1, 1), is_deleted=True)
    assert told(planned(holding(gone, version("b", 1, 2)), holding())) == [
        "register a version 1",
        "register b version 1",
        "soft delete a version 1",
    ]
    assert told(planned(holding(version("a", 1, 1)), holding(gone))) == ["restore a version 1"]


def test_referrers_are_deleted_first() -> None:
    """A registry does not delete what something refers to."""
    held = holding(*(replace(each, is_deleted=True) for each in (version("z", 1, 1), version("a", 1, 2, "", ("z", 1)))))
    there = holding(version("z", 1, 1), version("a", 1, 2, "", ("z", 1)))
    assert told(planned(held, there)) == ["soft delete a version 1", "soft delete z version 1"]
    both = {("z", 1): "z", ("a", 1): "a"}
    assert told(planned(holding(), there, distributed=both, delete_gone=True)) == [
        "delete a version 1",
        "delete z version 1",
    ]


def test_only_what_was_distributed_is_deleted_for_good() -> None:
    """What is gone at the primary goes if it was seen deleted softly; what only this registry has stays."""
    gone = replace(version("a", 1, 1), is_deleted=True)
    own = replace(version("own", 1, 2), is_deleted=True)
    changes = planned(holding(), holding(gone, own), distributed={("a", 1): "a"})
    assert told(changes) == ["delete a version 1", "keep own version 1"]


def test_a_primary_that_lost_everything_deletes_nothing() -> None:
    """What was never seen deleted softly is kept, and said, until somebody asks for it."""
    there, distributed = holding(version("a", 1, 1)), {("a", 1): "a"}
    assert told(planned(holding(), there, distributed=distributed)) == ["keep refused a version 1"]
    assert told(planned(holding(), there, distributed=distributed, delete_gone=True)) == ["delete a version 1"]


def test_another_template_deletes_nothing() -> None:
    """A subject that got another name is registered under it, and stays under the former one."""
    naming = SubjectNaming.of(None, NameTemplate.parse("new-{topic}"))
    changes = planned(
        holding(version("a", 1, 1)), holding(version("old-a", 1, 1)), naming=naming, distributed={("old-a", 1): "a"}
    )
    assert told(changes) == ["register new-a version 1", "keep old-a version 1"]


def test_subjects_that_meet_are_refused() -> None:
    """Two subjects that would be one there are both left out, and named."""
    naming = SubjectNaming.of(NameTemplate.parse("{env}-{topic}"), NameTemplate.parse("{topic}"))
    changes = planned(holding(version("test-a", 1, 1), version("live-a", 1, 2)), holding(), naming=naming)
    assert told(changes) == ["register refused a"]
    assert "live-a and test-a" in str(changes[0].problem)


def test_references_have_the_names_of_the_other_registry() -> None:
    """What a schema refers to is called there as the subject is called there."""
    naming = SubjectNaming.of(NameTemplate.parse("x-{topic}"), NameTemplate.parse("y-{topic}"))
    held = holding(version("x-a", 1, 1), version("x-b-value", 1, 2, "", ("x-a", 1)))
    *_, change = planned(held, holding(), naming=naming)
    assert change.version is not None
    assert (change.source, change.subject) == ("x-b-value", "y-b-value")
    assert [each.subject for each in change.version.schema.references] == ["y-a"]


def test_a_reference_that_is_nowhere() -> None:
    """A schema that refers to what the primary has no more cannot be registered, and is told."""
    changes = planned(holding(version("a", 1, 1, "", ("gone", 1))), holding())
    assert told(changes) == ["register refused a version 1"]
    assert "gone version 1" in str(changes[0].problem)


def test_levels_and_modes() -> None:
    """Compatibility follows, set and taken back; a registry that people could write to takes only us from now on."""
    held = holding(version("a", 1, 1), version("b", 1, 2), default_compatibility="FULL", compatibility={"a": "NONE"})
    there = holding(*held.versions.values(), compatibility={"b": "FULL"}, mode="READWRITE")
    changes = planned(held, there)
    assert [(change.verb, change.subject, change.before, change.after) for change in changes] == [
        (SchemaVerb.MODE, "", "READWRITE", "IMPORT"),
        (SchemaVerb.COMPATIBILITY, "", None, "FULL"),
        (SchemaVerb.COMPATIBILITY, "a", None, "NONE"),
        (SchemaVerb.COMPATIBILITY, "b", "FULL", None),
    ]


versions = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(1, 9), st.sampled_from(" abc"), st.booleans()),
    max_size=8,
)


def made(rows: Iterable[tuple[str, int, int, str, bool]]) -> RegistryContents:
    """A registry where a subject may refer to the first version of one before it."""
    found = {
        (subject, number): replace(
            version(subject, number, schema_id, "", *([(other, 1)] if other.strip() and other < subject else [])),
            is_deleted=is_deleted,
        )
        for subject, number, schema_id, other, is_deleted in rows
    }
    return RegistryContents(versions=found)


def applied(there: RegistryContents, changes: Iterable[SchemaChange]) -> RegistryContents:
    """What a registry holds after all that can be done was done."""
    held = dict(there.versions)
    for change in changes:
        if change.version is None or change.problem is not None:
            continue
        if change.verb is SchemaVerb.REGISTER:
            for reference in change.version.schema.references:
                assert (reference.subject, reference.version) in held
            held[change.version.key] = replace(change.version, is_deleted=False)
        elif change.verb in (SchemaVerb.SOFT_DELETE, SchemaVerb.RESTORE):
            is_deleted = change.verb is SchemaVerb.SOFT_DELETE
            held[change.version.key] = replace(held[change.version.key], is_deleted=is_deleted)
        elif change.verb is SchemaVerb.DELETE:
            del held[change.version.key]
    return RegistryContents(versions=held)


@given(versions, versions)
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(
    primary: list[tuple[str, int, int, str, bool]], other: list[tuple[str, int, int, str, bool]]
) -> None:
    """Whatever both hold: afterwards only what was refused is left, nothing was overwritten, and ids stay unique."""
    held, there = made(primary), made(other)
    changes = planned(held, there)
    after = applied(there, changes)
    assert all(change.problem is not None or not change.is_needed for change in planned(held, after))
    assert all(after.versions[key].id == each.id for key, each in there.versions.items())


def test_an_id_is_known_only_where_it_means_the_same() -> None:
    """What another registry has alone is found there too; what it gives to another schema, or lacks, is not known."""
    held = holding(version("a", 1, 1, '"string"'), version("a", 2, 2), version("a", 3, 3))
    there = holding(version("a", 1, 1, '{"type": "string"}'), version("b", 1, 2, '"int"'), version("c", 1, 9))
    pair = RegistryPair(primary="east", target="west", held=held, there=there, naming=SubjectNaming(), distributed={})
    assert known_ids(pair) == {("a", 1): 1, ("c", 1): 9}
