"""Chains of transforms as the `transform` of a link: what they become, and what is told of them."""

from __future__ import annotations

import pytest
import yaml

from isthmus.interop.deployment import Impact
from isthmus.interop.links import OffsetsChoice
from testing.values.samples import about, configured, imported, keys, pair

KAFKAS = "org.apache.kafka.connect.transforms"
FROM_BYTES = "com.cloudera.dim.kafka.connect.transformations.convert.ConvertFromBytes$Value"
IS_TOMBSTONE = ("predicates = gone", "predicates.gone.type = K.predicates.RecordIsTombstone")


def chained(chain: str, *lines: str) -> str:
    """A flow with a chain. `K.` stands for Kafka's package, `NAME:` for `transforms.NAME.`."""
    written = [f"transforms = {chain}"]
    for line in lines:
        key, _, value = line.partition(" = ")
        name, colon, rest = key.partition(":")
        key = f"transforms.{name}.{rest}" if colon else key
        written.append(f"{key} = {value.replace('K.', f'{KAFKAS}.')}")
    return pair(*(f"a->b.{line}".replace("\\", "\\\\") for line in written))


def transform_in(text: str) -> object:
    """The transform of the link that is made, in the form of the file."""
    draft = imported(text)
    assert draft.is_complete, draft.notices
    assert configured(draft)
    return yaml.safe_load(draft.text)["links"][0].get("transform")


def test_steps_are_composed() -> None:
    """A later step that reads what an earlier one has made reads its expression: assignments see what came."""
    text = chained(
        "i, h, r",
        "i:type = K.InsertField$Value",
        "i:static.field = origin",
        "i:static.value = it's ${env}",
        "h:type = K.HeaderFrom$Value",
        "h:fields = origin,id",
        "h:headers = o,x-id",
        "h:operation = move",
        "r:type = K.ReplaceField$Value",
        "r:renames = odd-name:other",
    )
    assert transform_in(text) == {
        "decode": {"value": "json"},
        "set": {"headers.o": "'it\\'s $${env}'", "headers.x-id": "value.id", "value.other": "value.`odd-name`"},
        "drop": ["value.origin", "value.id", "value.odd-name"],
    }


def test_names_of_topics_decide_by_patterns_of_the_source() -> None:
    """A transform for each set of predicates that are true; topics for which nothing is done are taken out."""
    text = chained(
        "f, m",
        "f:type = K.Filter",
        "f:predicate = audit",
        "m:type = K.MaskField$Value",
        "m:fields = ssn",
        "m:predicate = eu",
        "m:negate = true",
        "predicates = audit, eu",
        "predicates.audit.type = K.predicates.TopicNameMatches",
        "predicates.audit.pattern = a\\.audit-.*",
        "predicates.eu.type = K.predicates.TopicNameMatches",
        "predicates.eu.pattern = a\\.(eu|de)-.*",
    )
    mask = {"decode": {"value": "json"}, "mask": ["value.ssn"]}
    assert transform_in(text) == [
        {"topics": [r"/(?=(?:audit\-.*)$)(?:(?:(eu|de)-.*))/"], "where": "false"},
        {"topics": ["audit-*"], "where": "false"},
        {"topics": ["/(eu|de)-.*/"]},
        mask,
    ]


def test_predicates_on_records_are_conditions() -> None:
    """Headers that a step before has dropped or set count."""
    lines = ("f:type = K.Filter", "f:predicate = h", "predicates = h", "predicates.h.type = K.predicates.HasHeaderKey")
    assert transform_in(chained("f", *lines, "predicates.h.name = it's")) == {
        "where": "NOT map_contains_key(headers, 'it\\'s')"
    }
    drop = ("d:type = K.DropHeaders", "d:headers = x")
    assert transform_in(chained("d, f", *drop, *lines, "predicates.h.name = x")) == {"drop": ["headers.x"]}
    assert transform_in(chained("d, f", *drop, *lines, "predicates.h.name = x", "f:negate = true")) == {
        "where": "false"
    }


def test_tombstones_are_left_alone_where_a_step_is_not_for_them() -> None:
    """They have no fields, so that a guard against them needs no condition, but for a new key."""
    guard = ("predicate = gone", "negate = true")
    mask = ("m:type = K.MaskField$Key", "m:fields = a")
    assert "where" not in str(transform_in(chained("m", *mask)))
    key = ("k:type = K.ValueToKey", "k:fields = id", *(f"k:{each}" for each in guard), *IS_TOMBSTONE)
    found = transform_in(chained("k", *key))
    assert isinstance(found, dict)
    assert found["set"]["key"].startswith("IF(value IS NULL, key, ")
    unguarded = transform_in(chained("k", *key[:2]))
    assert isinstance(unguarded, dict)
    assert unguarded["set"]["key"].startswith("IF(value IS NULL, raise_error(")


def test_records_that_fail_are_left_out_where_connect_tolerates_them() -> None:
    """errors.tolerance = all drops them; without a transform it is of no use."""
    drop = ("d:type = K.DropHeaders", "d:headers = x", "errors.tolerance = all")
    draft = imported(chained("d", *drop))
    assert yaml.safe_load(draft.text)["links"][0]["transform"]["on_error"] == "skip"
    assert "a->b.errors.tolerance" not in {each.key for each in draft.notices}
    assert "a->b.errors.tolerance" in keys(imported(pair("a->b.errors.tolerance = all")), Impact.UNNEEDED)


def test_what_fails_in_mirrormaker_2_is_told() -> None:
    """Its records are bytes there, unless a step before turns them into what can be read."""
    mask = ("m:type = K.MaskField$Value", "m:fields = a")
    assert "fail on every record" in about(imported(chained("m", *mask)), "a->b.transforms").why
    reading = (
        f"b:type = {FROM_BYTES}",
        "b:converter = org.apache.kafka.connect.json.JsonConverter",
        "b:converter.schemas.enable = false",
        "value.converter = org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable = false",
    )
    draft = imported(chained("b, m", *reading, *mask))
    told = {each.key for each in draft.notices}
    assert not told & {"a->b.transforms", "a->b.value.converter", "a->b.value.converter.schemas.enable"}
    assert yaml.safe_load(draft.text)["links"][0]["transform"] == {"decode": {"value": "json"}, "mask": ["value.a"]}


@pytest.mark.parametrize(
    ("step", "lines", "says"),
    [
        ("Filter", ("x:predicate = p", "predicates.p.type = com.acme.IsLarge"), "does not know its predicate"),
        ("Filter", ("x:negate = perhaps", *IS_TOMBSTONE, "x:predicate = gone"), "negate must be true or false"),
        ("MaskField$Value", ("x:fields = a", "x:field.syntax.version = V2"), "its setting field.syntax.version"),
        ("MaskField$Value", (), "its fields are missing"),
        ("MaskField", ("x:fields = a",), "neither in MaskField$Key nor in MaskField$Value"),
        ("MaskField$Value", ("x:fields = a`b",), "cannot be written"),
        ("ReplaceField$Value", ("x:include = a,b", "x:renames = a:b,b:a"), "no field that came stays under its name"),
        ("ReplaceField$Value", ("x:renames = a:b,b:c",), "field b is taken away or renamed, and a gets its name"),
        ("ReplaceField$Value", ("x:renames = a",), "no list of old:new"),
        ("ExtractField$Value", ("x:field = a",), "makes one field the whole value"),
        ("HeaderFrom$Value", ("x:fields = a", "x:headers = b,c", "x:operation = move"), "as many fields as headers"),
        ("MaskField$Value", ("x:fields = a", "x:replacement = ${file:/s:k}"), "refers to a value outside the file"),
        (
            "MaskField$Value",
            ("x:fields = a", "x:predicate = p", "predicates.p.type = K.predicates.HasHeaderKey"),
            "fields of those records that a predicate on headers picks",
        ),
        (
            "Filter",
            (
                "x:predicate = p",
                "predicates.p.type = K.predicates.TopicNameMatches",
                "predicates.p.pattern = .*a.*",
            ),
            "its predicate is on names of topics, and .*a.* is no pattern of names at the source",
        ),
    ],
)
def test_nothing_is_copied_where_a_step_hides_something_and_is_not_translated(
    step: str, lines: tuple[str, ...], says: str
) -> None:
    """It is told with the reason, and topics are to be filled in."""
    draft = imported(chained("x", f"x:type = K.{step}", *lines))
    found = about(draft, "a->b.transforms.x.type")
    assert (found.impact, says in found.why) == (Impact.NEEDED, True), found
    assert "docs/transforms.md" in found.todo
    assert configured(draft).links[0].topics.include == ()


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        ("InsertField$Value", ("x:static.field = ssn", "x:static.value = hidden", "x:other = b")),
        ("ValueToKey", ("x:fields = id", "x:other = b")),
        ("TimestampConverter$Value", ("x:field = born", "x:target.type = string", "x:format = yyyy")),
        ("Cast$Value", ("x:spec = a:int8",)),
    ],
)
def test_what_stands_in_the_place_of_something_hides_it(step: str, lines: tuple[str, ...]) -> None:
    """A field that is inserted may be one that records have, and a key that is made replaces theirs."""
    draft = imported(chained("x", f"x:type = K.{step}", *lines))
    assert about(draft, "a->b.transforms.x.type").impact is Impact.NEEDED
    assert configured(draft).links[0].topics.include == ()


HAS_HEADER = ("predicates.h.type = K.predicates.HasHeaderKey", "predicates.h.name = x-id")
FROM_ID = ("h:type = K.HeaderFrom$Value", "h:fields = id", "h:headers = x-id", "h:operation = copy")


def test_headers_of_a_guarded_step_count_for_its_records_alone() -> None:
    """Tombstones keep the headers that they came with, and a filter behind looks at these."""
    text = chained(
        "h, f",
        *FROM_ID,
        "h:predicate = gone",
        "h:negate = true",
        "f:type = K.Filter",
        "f:predicate = h",
        "predicates = gone, h",
        "predicates.gone.type = K.predicates.RecordIsTombstone",
        *HAS_HEADER,
    )
    assert transform_in(text) == {
        "decode": {"value": "json"},
        "where": "NOT (value IS NOT NULL OR map_contains_key(headers, 'x-id'))",
        "set": {"headers.x-id": "IF(value IS NOT NULL, value.id, headers['x-id'])"},
    }


@pytest.mark.parametrize("step", [("h:type = K.InsertHeader", "h:header = x-id", "h:other = b"), (*FROM_ID, "h:b = c")])
def test_a_mark_that_is_not_set_is_looked_for_by_no_filter(step: tuple[str, ...]) -> None:
    """Without the header of a step that is not translated, a filter behind it would let other records pass."""
    lines = ("f:type = K.Filter", "f:predicate = h", "predicates = h", *HAS_HEADER)
    draft = imported(chained("h, f", *step, *lines))
    assert about(draft, "a->b.transforms.h.type").impact is Impact.NEEDED
    assert configured(draft).links[0].topics.include == ()


@pytest.mark.parametrize("lines", [("r:renames = userId:id,uid:id",), ("r:include = a,b", "r:renames = a:b")])
def test_two_fields_get_no_common_name(lines: tuple[str, ...]) -> None:
    """Which of them stays is decided by hashes in Kafka Connect, and one would be lost here."""
    draft = imported(chained("r", "r:type = K.ReplaceField$Value", *lines))
    assert "two fields get the name" in about(draft, "a->b.transforms.r.type").why


def test_fields_that_may_meet_are_told() -> None:
    """A record may have a field of the new name, and one may lack the field that a header is made of."""
    text = chained("r, h", "r:type = K.ReplaceField$Value", "r:renames = a:b", *FROM_ID)
    draft = imported(text)
    assert "it gets the value of the renamed one" in about(draft, "a->b.transforms.r.renames").why
    assert "it removes the header" in about(draft, "a->b.transforms.h.fields").why


def test_tombstones_keep_the_keys_that_steps_before_have_made() -> None:
    """A key that was masked would come as it was with a tombstone, where a key is made of values."""
    text = chained(
        "m, k",
        "m:type = K.MaskField$Key",
        "m:fields = ssn",
        "k:type = K.ValueToKey",
        "k:fields = id",
        "k:predicate = gone",
        "k:negate = true",
        *IS_TOMBSTONE,
    )
    draft = imported(text)
    found = about(draft, "a->b.transforms.k.type")
    assert (found.impact, "tombstones keep their keys" in found.why) == (Impact.NEEDED, True), found


def test_unknown_classes_may_hide_something() -> None:
    """Of others nobody knows what they do, whatever their names are like."""
    for kind in ("com.acme.Filter", "com.acme.Encrypt$Value", ""):
        draft = imported(chained("x", f"x:type = {kind}"))
        assert about(draft, "a->b.transforms.x.type").impact is Impact.NEEDED
        assert configured(draft).links[0].topics.include == ()


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        ("InsertHeader", ("x:header = a", "x:other = b")),
    ],
)
def test_steps_that_add_something_are_lost(step: str, lines: tuple[str, ...]) -> None:
    """Records come all the same: nothing shows that was hidden."""
    draft = imported(chained("x", f"x:type = K.{step}", *lines))
    assert about(draft, "a->b.transforms.x.type").impact is Impact.LOST
    assert configured(draft).links[0].topics.include != ()
    assert configured(draft).links[0].transforms == ()


def test_a_step_that_fails_for_some_topics_is_left_out_for_all() -> None:
    """A transform has all of a step or nothing of it."""
    text = chained(
        "m, h",
        "m:type = K.MaskField$Value",
        "m:fields = a",
        "m:predicate = p",
        "h:type = K.HeaderFrom$Value",
        "h:fields = a",
        "h:headers = a",
        "h:operation = copy",
        "predicates = p",
        "predicates.p.type = K.predicates.TopicNameMatches",
        "predicates.p.pattern = a\\.orders",
    )
    draft = imported(text)
    assert about(draft, "a->b.transforms.h.type").impact is Impact.LOST
    (one,) = configured(draft).links[0].transforms
    assert (list(map(str, one.topics)), list(map(str, one.mask)), one.sets) == (["orders"], ["value.a"], ())


def test_what_has_no_effect_is_told() -> None:
    """Predicates without a step, steps that the chain does not name, and names that no topic has."""
    text = chained(
        "d, f",
        "d:type = K.DropHeaders",
        "d:headers = x",
        "other:type = K.Filter",
        "f:type = K.Filter",
        "f:predicate = p",
        "predicates = p, q",
        "predicates.p.type = K.predicates.TopicNameMatches",
        "predicates.p.pattern = orders.*",
    )
    draft = imported(text)
    assert about(draft, "a->b.predicates").value == "q"
    assert about(draft, "a->b.transforms.other.type").impact is Impact.UNKNOWN
    assert "true for no topic" in about(draft, "a->b.predicates.p.pattern").why
    assert yaml.safe_load(draft.text)["links"][0]["transform"] == {"drop": ["headers.x"]}


def test_offsets_of_the_source_and_a_transform_exclude_each_other() -> None:
    """The configuration is not complete then."""
    draft = imported(chained("d", "d:type = K.DropHeaders", "d:headers = x"), offsets=OffsetsChoice.SAME)
    assert about(draft, "a->b.transforms").impact is Impact.NEEDED
