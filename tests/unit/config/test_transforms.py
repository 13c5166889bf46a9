"""Transforms of links as the file has them, and what is refused of them."""

from __future__ import annotations

import pickle

import pytest
import yaml

from isthmus import config
from isthmus.cli.setup.config import resolve_configuration
from isthmus.config.declared import declared_link
from isthmus.config.transforms import written_transforms
from isthmus.errors import ConfigError
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.transform import OnError, RecordFormat, TransformWay
from isthmus.model.naming import SourceTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.registers import SETTINGS, Author, change_registers
from isthmus.model.text.plain import plain
from tests.unit.config.refusing import linked, refusal

WHOLE = """
clusters: {a: {bootstrap_servers: 'a:1'}, b: {bootstrap_servers: 'b:1'}}
links:
- name: l
  source: a
  target: b
  topics: {include: ["orders.*", "raw"]}
  transform:
  - topics: [orders.raw]
  - topics: ["orders.*"]
    decode: {key: utf8, value: {format: json, fields: "country STRING, email STRING"}}
    where: "value.country IN ('DE', 'FR')"
    set: {value.email: "sha2(value.email, 256)", headers.origin: "'east'", timestamp: "timestamp"}
    drop: [value.internal_note, headers.trace-id]
    on_error: skip
  - python: "company.rules:clean"
    version: 3
"""


def link_of(transform: str, more: str = "") -> Link:
    """The one link of a configuration with this transform."""
    return config.parse(
        linked(f"name: l, source: a, target: b, topics: {{include: [t]}}{more}, transform: {transform}")
    ).link("l")


def test_transforms_are_read_and_the_first_that_matches_is_for_a_topic() -> None:
    """Paths, formats and expressions become values; a mapping with topics alone leaves those as they are."""
    link = config.parse(WHOLE.replace("version: 3", "version: '3'")).link("l")

    orders, raw = link.transform_of(SourceTopic("orders.eu")), link.transform_of(SourceTopic("raw"))
    assert link.transform_of(SourceTopic("orders.raw")) is None
    assert orders is not None
    assert raw is not None
    assert (orders.way, raw.way) == (TransformWay.SQL, TransformWay.PYTHON)
    assert (orders.key.format, orders.value.format) == (RecordFormat.UTF8, RecordFormat.JSON)
    assert orders.on_error is OnError.SKIP
    form = plain(orders)
    assert form["set"] == {
        "value.email": "sha2(value.email, 256)",
        "headers.origin": "'east'",
        "timestamp": "timestamp",
    }
    assert form["drop"] == ["value.internal_note", "headers.trace-id"]
    assert (form["topics"], form["python"]) == (["orders.*"], None)
    assert (plain(raw)["python"], raw.version) == ("company.rules:clean", "3")
    assert pickle.loads(pickle.dumps(orders)) == orders  # noqa: S301


def test_what_is_shown_of_a_transform_can_be_read_again() -> None:
    """As of the whole file."""
    configuration = config.parse(WHOLE.replace("version: 3", "version: '3'"), environment={})
    again = config.parse(yaml.safe_dump(resolve_configuration(configuration)), environment={})

    assert again.links == configuration.links


def test_texts_from_outside_the_file_are_refused_in_transforms() -> None:
    """They may be secrets, and transforms are shown."""
    text = linked("name: l, source: a, target: b, transform: {set: {key: \"concat(key, '${env:SALT}')\"}}")
    with pytest.raises(ConfigError, match=r"links\[0\]\.transform\.set\.key refers to a text outside the file"):
        config.parse(text, environment={"SALT": "pepper"})


def test_one_mapping_stands_for_a_list_of_it() -> None:
    """Mistakes in it are named by the path that the file has, and variables replace its keys."""
    assert len(link_of("{python: 'rules:clean'}").transforms) == 1
    text = linked("name: l, source: a, target: b, transform: {wher: x}")
    assert "isthmus.yaml:3: links[0].transform.wher is not a known key" in refusal(text)
    text = linked("name: l, source: a, target: b, transform: [{wher: x}]")
    assert "links[0].transform[0].wher is not a known key" in refusal(text)
    text = linked("name: l, source: a, target: b, transform: {python: 'rules:clean'}")
    found = config.parse(text, environment={"ISTHMUS_LINKS__L__TRANSFORM__PYTHON": "rules:other"})
    assert str(found.link("l").transforms[0].python) == "rules:other"


@pytest.mark.parametrize(
    ("transform", "says"),
    [
        ("{}", "transform changes nothing"),
        ("{decode: {value: json}}", "transform changes nothing"),
        ("[{python: 'a:b'}, {topics: [t]}]", "transform[0] has no topics, so that those behind it are for none"),
        ("{set: {value: x, valu.y: x}}", "transform.set.valu.y is wrong: 'valu.y' is no part of a record"),
        ("{set: {offset: '1'}}", "transform.set.offset is wrong: 'offset' cannot be changed"),
        ("{set: {headers: x}}", "transform.set.headers is wrong: 'headers' names no header"),
        ("{set: {timestamp.x: x}}", "transform.set.timestamp.x is wrong: 'timestamp.x': a timestamp has no fields"),
        ("{decode: {value: json}, set: {value.a: x}, drop: [value.a]}", "drop[0] is value.a, and that is set, dropped"),
        ("{decode: {value: json}, set: {value.a: x, value.a.b: y}}", "is value.a.b, and value.a is set, dropped"),
        ("{drop: [value]}", "transform.drop[0] is value, and only fields and headers can be dropped"),
        ("{keep: [headers.a]}", "transform.keep[0] is headers.a, and only fields of a key or a value can be kept"),
        ("{mask: [value]}", "transform.mask[0] is value, and only fields of a key or a value can be masked"),
        ("{mask: [value.x]}", "transform.mask[0] names a field of the value, which is not decoded: it is none"),
        ("{decode: {value: json}, keep: [value.a], set: {value.a: x}}", "keep[0] is value.a, and that is set, dropped"),
        ("{decode: {value: json}, drop: [value.a], mask: [value.a]}", "mask[0] is value.a, and that is set, dropped"),
        ("{decode: {value: json}, set: {value: x}, mask: [value.a]}", "mask[0] is value.a, and value is set, dropped"),
        ("{python: 'a:b', mask: [value.a]}", "transform.mask stands beside python"),
        ("{drop: [value.x]}", "transform.drop[0] names a field of the value, which is not decoded: it is none"),
        ("{decode: {key: utf8}, where: 'key.id > 1'}", "where names a field of the key, which is not decoded: it is"),
        ("{decode: {value: jsn}, where: 'true'}", "transform.decode.value must be none, utf8, json"),
        ("{decode: {value: {format: utf8, fields: 'a INT'}}, where: 'true'}", "decode.value.fields is of no use"),
        ("{decode: {value: avro}, where: 'true'}", "decode.value is avro, and a has no schema registry"),
        ("{decode: {key: protobuf}, where: 'true'}", "decode.key is protobuf, which is not supported yet"),
        ("{decode: {value: {format: json, subjects: [s]}}, where: 'true'}", "decode.value.subjects is of no use"),
        ("{decode: {value: {format: avro, subjects: ['s', ':.c:s']}}, where: 'true'}", "subjects of several contexts"),
        ("{decode: {value: avro}, keep: [value.a]}", "transform.keep is not possible with avro yet"),
        ("{decode: {key: avro}, mask: [key.a]}", "transform.mask is not possible with avro yet"),
        ("{python: 'rules'}", "transform.python is wrong: 'rules' names no Python function"),
        ("{python: 'a:b', where: 'true'}", "transform.where stands beside python"),
        ("{where: 'true', version: '1'}", "transform.version is of no use without python"),
        ("{topics: ['a*b'], python: 'a:b'}", "transform.topics[0] cannot be used"),
    ],
)
def test_what_cannot_be_is_named_by_its_path(transform: str, says: str) -> None:
    """Each mistake is found before anything connects."""
    assert says in refusal(linked(f"name: l, source: a, target: b, transform: {transform}"))


def test_fields_that_are_kept_or_set_may_be_masked() -> None:
    """They are masked behind that."""
    fields = "set: {value.b: value.a}, keep: [value.c], mask: [value.b, value.c]"
    found = config.parse(linked(f"name: l, source: a, target: b, transform: {{decode: {{value: json}}, {fields}}}"))
    (transform,) = found.link("l").transforms
    assert list(map(str, transform.mask)) == ["value.b", "value.c"]
    assert [*written_transforms([transform])[0]] == ["decode", "set", "keep", "mask", "on_error"]


def test_texts_and_comments_of_an_expression_name_no_fields() -> None:
    """Only what Spark would read as a field needs a decoded value."""
    assert link_of("{where: \"value != 'value.x' -- value.y\"}").transforms[0].where


def test_records_that_are_changed_do_not_keep_their_offsets() -> None:
    """Without a word on offsets a link with a transform chooses; the same ones are refused."""
    assert link_of("{python: 'a:b'}").topics.offsets is OffsetPolicy.AUTO
    text = linked("name: l, source: a, target: b, topics: {offsets: same}, transform: {python: 'a:b'}")
    assert "links[0].topics.offsets is same, and records that are changed" in refusal(text)
    begun = "name: l, source: a, target: b, topics: {include: [t], start: latest}, transform: {python: 'a:b'}"
    assert config.parse(linked(begun)).link("l").topics.start


def test_a_declared_link_has_transforms_unless_it_is_synchronous() -> None:
    """They travel as other settings do, a list or one mapping; acknowledged records have to be found as they came."""

    def declared(settings: dict[str, object], mode: str = "async") -> Link:
        values = {"mode": mode, **{f"{SETTINGS}{key}": value for key, value in settings.items()}}
        author = Author(by="ann", at_ms=1, where="A")
        declaration = Declaration(name="l", registers=change_registers((), values, author))
        clusters = config.parse(linked("name: l, source: a, target: b")).clusters
        return declared_link(declaration, clusters[0], clusters[1])

    function: dict[str, object] = {"transform": {"python": "a:b"}}
    assert declared(function).transforms[0].way is TransformWay.PYTHON
    assert len(declared({"transform": [{"topics": ["x"]}, {"python": "a:b"}]}).transforms) == 2
    single = declared({"transform.decode.value": "json", "transform.set.value.a": "1"}).transforms[0]
    assert [str(each.path) for each in single.sets] == ["value.a"]
    with pytest.raises(ConfigError, match="link l: transform changes records on the way, and the link is synchronous"):
        declared(function, "sync")
    with pytest.raises(ConfigError, match=r"link l: transform\.python is wrong"):
        declared({"transform.python": "a"})
