"""Short tables, printed and in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

from isthmus.model.text.shown import ROWS_MAX, ShortTable, Tone

EVIL = "<script>alert('x')</script>\x1b[2J&\"'"


class _Read(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert [name for name, _ in attrs if name != "style"] == []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(html: str) -> _Read:
    """What a browser makes of it."""
    found = _Read()
    found.feed(html)
    return found


def table(*rows: dict[str, object], title: str = "two topics", notes: tuple[str, ...] = ()) -> ShortTable:
    """A table of topics, in which FAILED is bad."""
    columns = ("topic", "state", "lag_records", "problem")
    return ShortTable(title=title, columns=columns, rows=rows, notes=notes, tones={"FAILED": Tone.BAD})


def test_a_table_is_printed_in_columns() -> None:
    """Numbers to the right with thousands, an unknown one by that word, and a column without values left out."""
    found = table(
        {"topic": "orders", "state": "ACTIVE", "lag_records": 1234567},
        {"topic": "clicks.eu", "state": "FAILED", "lag_records": None},
    )
    assert str(found.as_text()).splitlines() == [
        "two topics",
        "topic      state   lag records",
        "─────────  ──────  ───────────",
        "orders     ACTIVE    1,234,567",
        "clicks.eu  FAILED      unknown",
    ]


def test_a_long_sentence_has_several_lines() -> None:
    """It stands in the last column, no line is wider than a terminal, and nothing of it is lost."""
    sentence = "another producer wrote to the target partition " * 6
    lines = table({"topic": "orders", "state": "FAILED", "problem": sentence}).as_text().splitlines()
    assert max(map(len, lines)) <= 120
    last = [line[lines[1].index("problem") :] for line in lines[3:]]
    assert " ".join(last).split() == sentence.split()


def test_what_comes_from_outside_is_escaped() -> None:
    """In each place where a text may stand: nothing of it becomes a tag, and no control character is left."""
    found = table({"topic": EVIL, "state": EVIL, "problem": EVIL}, title=EVIL, notes=(EVIL,))
    page = read(found.as_html())
    assert page.tags == {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    shown = EVIL.replace("\x1b", "")
    assert [text for text in page.texts if "alert" in text] == [shown] * 5
    assert "\x1b" not in found.as_text() + found.as_line()


def test_states_have_colours() -> None:
    """A bad one is red; a word that means nothing has none."""
    html = table({"topic": "orders", "state": "FAILED"}, {"topic": "clicks", "state": "ACTIVE"}).as_html()
    assert f"color:{Tone.BAD.value}" in html
    assert html.count("color:") == 1


def test_many_rows_are_cut_and_those_in_trouble_stay() -> None:
    """Wherever they stand: the rest is counted."""
    calm: list[dict[str, object]] = [{"topic": f"topic-{n}", "state": "ACTIVE"} for n in range(ROWS_MAX)]
    found = table(*calm, {"topic": "broken", "state": "FAILED"}, {"topic": "odd", "state": "ACTIVE", "problem": "why"})
    for text in (found.as_text(), found.as_html()):
        assert "and 2 more" in text
        assert "broken" in text
        assert "odd" in text
        assert "topic-17" in text
        assert "topic-18" not in text


def test_one_line_has_the_first_problems() -> None:
    """Each with its place; of others only how many there are."""
    rows: list[dict[str, object]] = [{"topic": f"t{n}", "state": "FAILED", "problem": f"why {n}"} for n in range(5)]
    assert table(*rows).as_line() == (
        "two topics; t0/FAILED: why 0; t1/FAILED: why 1; t2/FAILED: why 2; and 2 more problems"
    )


def test_without_rows_there_is_only_the_title() -> None:
    """No heading without a table."""
    assert table(title="no link", notes=("and a note",)).as_text() == "no link\nand a note"
    assert read(table(title="no link").as_html()).tags == {"div", "p"}
