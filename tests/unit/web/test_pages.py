"""The pages of the console, made of what was seen of links: what they show, and that no name becomes markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from isthmus import config
from isthmus.errors import RequestRefused
from isthmus.fabric.answers import DeclaredLink
from isthmus.groups.plan import GroupPlan, GroupsPlan, PositionPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.memory.authorship import Authored
from isthmus.model.gateways.registered import GatewayPair, GatewaysReport, LinkPart, RegisteredGateway, Unmarked
from isthmus.model.gateways.synchrony import FirstUnheld, OutOfSync, Synchrony, SyncState
from isthmus.model.kafka.group import Committed
from isthmus.model.lane import LaneState
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.pauses import Pause, PausedTask, Pauses
from isthmus.model.loop import Change
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.registers import Register, Statement
from isthmus.model.state import LinkState
from isthmus.model.text.plain import plain
from isthmus.model.trees.tree import Tree, node_of
from isthmus.topics.plan import Action, LinkPlan, TopicPlan
from isthmus.web.access.auditing import record
from isthmus.web.access.guard import ANYBODY, Caller
from isthmus.web.access.tokens import Role
from isthmus.web.operations import LongOperation, OperationKind
from isthmus.web.problems import problem_body
from isthmus.web.rendering import page
from testing.rest.browsing import CONFIGURATION, Browser, seen_in
from testing.values.standing import link_at, topic_at

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp\x1b[31m'
MADE_HARMLESS = "&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;\\u202egnp\\u001b[31m"
PAGES = ["/", "/links/east-west", "/links/east-west/topics/orders", "/links/east-west/groups", "/links/east-west/plan"]
PAGES += ["/gateways", "/operations", "/changes", "/trees/continents", "/login"]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A file of tokens that is not there yet."""
    return tmp_path / "tokens.json"


class _Marks(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def marks(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """What a browser makes of a page."""
    parser = _Marks()
    parser.feed(page)
    return parser.found


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_nothing_inline_and_nothing_from_elsewhere(tokens: Path, path: str) -> None:
    """Scripts and styles are files of ours, and each one is there; its headers allow nothing else."""
    browser = Browser(tokens)
    answer = browser.get(path)

    assert answer.status_code == 200
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert (answer.headers["x-frame-options"], answer.headers["cache-control"]) == ("DENY", "no-store")
    for tag, has in marks(answer.text):
        assert tag != "style"
        assert not [name for name in has if name == "style" or name.startswith(("on", "hx-on"))]
        assert tag != "script" or has.get("src")
        address = has.get("src") or (has.get("href") if tag == "link" else None)
        assert address is None or browser.get(address).status_code == 200


def test_the_map_has_clusters_and_links_with_lag(tokens: Path) -> None:
    """Drawn, and told in a table; trees are listed."""
    late = link_at(
        topic_at("orders", source_end=1250), state=LinkState.UNAVAILABLE, problem=Problem("gone", "Start it")
    )
    shown = Browser(tokens, (late, link_at(link="back", source="west", target="east"))).text("/")

    drawn = shown.partition("<svg")[2].partition("</svg>")[0]
    assert drawn.count('class="road') == 2
    assert all(f">{cluster}</text>" in drawn for cluster in ("east", "west", "north"))
    assert "1,240 lag" in drawn
    assert all(each in seen_in(shown) for each in ("UNAVAILABLE", "gone", "Start it", "continents"))


FOLLOWING = ["/", "/links/east-west", "/links/east-west/topics/orders", "/operations", "/changes"]


@pytest.mark.parametrize("path", [*FOLLOWING, "/trees/continents"])
def test_a_page_that_shows_states_follows_them(tokens: Path, path: str) -> None:
    """It asks for itself every few seconds, and puts in what is new."""
    (live,) = [has for _, has in marks(Browser(tokens).text(path)) if has.get("id") == "live"]
    assert (live["hx-get"], live["hx-select"]) == (path, "#live")
    assert (live["hx-trigger"] or "").startswith("every ")


def test_the_drawing_of_a_tree_is_loaded_again_when_it_changes(tokens: Path) -> None:
    """By an address that changes with it, and with nothing else."""
    browser = Browser(tokens)

    def address() -> str:
        (found,) = [has["src"] or "" for tag, has in marks(browser.text("/trees/continents")) if tag == "img"]
        return found

    before = address()
    assert address() == before
    browser.desk.latest = config.parse(CONFIGURATION.replace("[[east, west], north]", "[[east, north], west]"))
    assert address() != before
    assert browser.get(address()).headers["content-type"] == "image/svg+xml"


def test_topics_are_sorted_by_lag_and_shown_in_pages(tokens: Path) -> None:
    """The latest first, what is unknown before it; others by name, state and page."""
    topics = [topic_at(f"t-{number:03}", source_end=10 + number) for number in range(120)]
    unknown = topic_at("unknown", source_end=-1, state=LaneState.SOURCE_UNAVAILABLE)
    browser = Browser(tokens, (link_at(*topics, unknown),))

    def names(query: str) -> list[str]:
        found = marks(browser.text(f"/links/east-west{query}"))
        paths = [has.get("href") or "" for tag, has in found if tag == "a"]
        return [path.rpartition("/")[2] for path in paths if "/topics/" in path]

    assert names("")[:3] == ["unknown", "t-119", "t-118"]
    assert len(names("")) == 50
    assert names("?page=3")[-1] == "t-000"
    assert names("?page=99") == names("?page=3")
    assert names("?sort=topic&search=T-01") == [f"t-01{number}" for number in range(10)]
    assert names("?state=SOURCE_UNAVAILABLE") == names("?state=PROBLEMS") == ["unknown"]


def test_names_and_messages_never_become_markup(tokens: Path) -> None:
    """Neither in text nor in attributes, and marks that change what is seen are shown as what they are."""
    problem = Problem(HOSTILE, HOSTILE, HOSTILE)
    topic = topic_at(HOSTILE, problem=problem, state=LaneState.DIVERGED)
    link = link_at(topic, link=HOSTILE, source=HOSTILE, target=f"{HOSTILE} too", problem=problem)
    record(Caller(HOSTILE, Role.ADMIN), HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, HOSTILE)
    browser = Browser(tokens, (link, link_at(topic_at(HOSTILE, problem=problem))))

    for path in ("/", "/links/east-west", f"/links/east-west?search={HOSTILE[:30]}", "/changes"):
        shown = browser.text(path)
        assert MADE_HARMLESS in shown or "&lt;script&gt;alert(1)" in shown
        assert [tag for tag, has in marks(shown) if tag == "img" or (tag == "script" and not has.get("src"))] == []
        assert "\u202e" not in shown
        assert "\x1b" not in shown


def _hostile_pages() -> dict[str, dict[str, Any]]:
    """Pages and parts of pages, with a hostile name wherever something from outside is shown."""
    problem = Problem(HOSTILE, HOSTILE, HOSTILE)
    operation = LongOperation(
        id="1", verb="drill", target=HOSTILE, link=HOSTILE, by=Caller(HOSTILE, Role.ADMIN), subject=None,
        kind=OperationKind.COMPARES, begun_at_ms=0, result={HOSTILE: HOSTILE},
        problem=problem_body(RequestRefused(HOSTILE)),
    )  # fmt: skip
    operation.steps.append((0, HOSTILE))
    names: dict[str, Any] = {"topic": TargetTopic(HOSTILE), "source_topic": SourceTopic("a")}
    topic = TopicPlan(**names, action=Action.COPY, reasons=(problem,), notes=(problem,))
    change = Change(loop="configs", subject=HOSTILE, setting=HOSTILE, before=HOSTILE, after=HOSTILE, problem=problem)
    pause = Pause(part=TargetTopic(HOSTILE), since_ms=0, by=HOSTILE)
    plan = LinkPlan(
        link=HOSTILE, source=HOSTILE, target=HOSTILE, topics=(topic,), changes=(change,), pauses=(pause,),
        recommendations=(problem,), unmatched=(problem,), problem=problem,
    )  # fmt: skip
    tree = Tree(name=HOSTILE, root=node_of([f"{HOSTILE} 1", f"{HOSTILE} 2"]))
    said = Authored(at_ms=0, by=HOSTILE, what=HOSTILE, subject=HOSTILE, value=HOSTILE, clusters=(HOSTILE,))
    return {
        "operations.html": {"operations": [operation]},
        "operation.html": {"operation": plain(operation), "is_stopped_by": True},
        "plan_part.html": {"name": HOSTILE, "plan": plan},
        "tree.html": {"tree": tree, "known": {}, "drawing": "0", "at_ms": 0},
        "held_part.html": {"said": [said], "away": {HOSTILE: problem}},
        "overruled_part.html": {"declared": apart(HOSTILE, HOSTILE)},
        "gateways_part.html": {"found": standing_gateways(HOSTILE, problem)},
    }


def standing_gateways(name: str, problem: Problem) -> GatewaysReport:
    """A gateway of two processes, one of them silent, and two links: how one of them stands is not known."""
    out = Synchrony(
        state=SyncState.OUT_OF_SYNC, reason=name, since_ms=0, lets_go=(FirstUnheld(SourceTopic("orders"), 3, 120),)
    )
    part = LinkPart(link=name, state=SyncState.OUT_OF_SYNC, since_ms=0, held=4, oldest_s=1.5)
    one = RegisteredGateway(
        ids=("a", "b"), address=name, host=name, serves=name, cluster="east", since_ms=0, processes=2, heard=1,
        silent=1, move=name, beat_age_s=12.0, connections=1234, links=(part,), refused={"silent": 5},
    )  # fmt: skip
    known = GatewayPair(link=name, source=name, target=name, out_of_sync=OutOfSync.AVAILABLE, sync=out, held=4)
    return GatewaysReport(
        gateways=(one,),
        pairs=(known, replace(known, sync=None, problem=problem)),
        unmarked=(Unmarked(cluster=name, producers=2, partitions=3),),
        away={name: problem},
    )


def apart(by: str, cluster: str) -> DeclaredLink:
    """A link of which its two sides said different things before they knew of each other; a third one is away."""
    statement = Statement(name=f"settings/{by}", value=json.dumps(by), version=1, at_ms=0, by=by, where="e")
    holds = Register(name=statement.name, value='"stop"', version=1, at_ms=60_000, by=f"not {by}", where="w")
    return DeclaredLink(
        declaration=Declaration(name=by, registers=()),
        away={cluster: Problem(by)},
        overruled={cluster: ((statement, holds),)},
    )


@pytest.mark.parametrize("template", _hostile_pages())
def test_no_page_makes_markup_of_a_name(template: str) -> None:
    """Of operations, their steps and results, of a plan and its changes, of trees, and of who said what."""
    values = _hostile_pages()[template]
    text = bytes(page(template, caller=ANYBODY, shown_max=10, **values).body).decode()

    assert MADE_HARMLESS in text or "&lt;script&gt;alert(1)" in text
    own = ("/static/", "/trees/")
    loaded = [has.get("src") or "" for tag, has in marks(text) if tag in ("script", "img")]
    assert [address for address in loaded if not address.startswith(own)] == []
    assert not {"\u202e", "\x1b"} & {*text}


def test_a_group_is_shown_with_both_positions() -> None:
    """Whatever its name is; the button of the drill sends it as it is."""
    position = PositionPlan(
        topic=SourceTopic("orders"),
        partition=0,
        target_topic=TargetTopic("orders"),
        source=Committed(1234),
        translated=1234,
        committed=Committed(1200),
        log_start=0,
        high_watermark=1300,
        standing=Standing.DUE,
    )
    group = GroupPlan(group=HOSTILE, target_group=HOSTILE, standing=Standing.DUE, positions=(position,))
    plan = GroupsPlan(link="east-west", source="east", target="west", way="identity", groups=(group,))
    answer = page("groups_part.html", caller=ANYBODY, name="east-west", plans=(plan,), shown_max=10)
    text = bytes(answer.body).decode()

    assert all(each in text for each in ("1,234", "1,200", "34 records behind"))
    sent = [has.get("value") for tag, has in marks(text) if has.get("name") == "group"]
    assert sent == [HOSTILE]
    assert [tag for tag, _ in marks(text) if tag in ("script", "img")] == []


def test_gateways_are_shown_with_what_they_hold() -> None:
    """Which cluster they serve instead of theirs, who is silent, what is given up, and what is not known."""
    found = standing_gateways("kafka:19092", Problem("west hangs"))
    told = " ".join(seen_in(bytes(page("gateways_part.html", caller=ANYBODY, found=found).body).decode()).split())

    assert all(each in told for each in ("started for east", "12 s", "(silent)", "1 of 2", "1,234", "silent 5"))
    assert "4 answers held, the first for 1.5 s" in told
    assert "OUT_OF_SYNC since 1970-01-01 00:00:00" in told
    assert "1 partition answered without the follower: orders-3 from offset 120" in told
    assert "2 producers without transactions wrote past the gateways to 3 partitions" in told
    assert told.count("west hangs") == 2
    assert "unknown" in told


def test_a_page_shows_some_of_a_thousand_topics(tokens: Path) -> None:
    """However it is sorted and searched: what is drawn does not grow with the link."""
    link = link_at(*(topic_at(f"topic-{number:04}", source_end=10 + number) for number in range(1000)))
    browser = Browser(tokens, (link,))

    for path in ("/links/east-west", "/links/east-west?sort=topic&page=20&search=topic"):
        shown = set(re.findall(r"topic-\d{4}", browser.text(path)))
        assert 0 < len(shown) <= 50
    assert len(browser.text("/")) < 50_000


def test_a_link_says_who_paused_what(tokens: Path) -> None:
    """With the day, on its page."""
    given = [Pause(part=None, since_ms=0, by="anna@host"), Pause(part=PausedTask("configs"), since_ms=0, by="")]
    shown = Browser(tokens, (link_at(topic_at("orders"), pauses=Pauses.from_pauses(given).authored),)).text(
        "/links/east-west"
    )

    assert "all of it is paused since 1970-01-01T00:00:00Z by anna@host" in shown
    assert "task configs is paused since 1970-01-01T00:00:00Z<" in shown


def test_what_was_said_and_does_not_hold_is_told(tokens: Path) -> None:
    """By whom, when and at which cluster, with what holds instead; of a link of the file nothing is said."""
    said = bytes(page("overruled_part.html", caller=ANYBODY, declared=apart("ada@host", "east")).body).decode()
    told = " ".join(seen_in(said).split())
    assert "At east, 1970-01-01 00:00:00 UTC: ada@host set ada@host to &#34;ada@host&#34; ." in told
    assert "In force: &#34;stop&#34; of not ada@host, 1970-01-01 00:01:00 UTC." in told
    assert "east does not answer" in told

    browser = Browser(tokens)
    asked = [has["hx-get"] for _, has in marks(browser.text("/links/east-west")) if has.get("id") == "said"]
    assert asked == ["/links/east-west/overruled"]
    assert browser.text("/links/east-west/overruled").strip() == ""


def test_what_is_not_there_is_told_on_a_page(tokens: Path) -> None:
    """With the code and the hint; a part of a page is told as a part."""
    browser = Browser(tokens)

    for path in ("/nothing", "/links/nothing", "/links/east-west/topics/nothing", "/trees/nothing", "/operations/no"):
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "ISTH-REQUEST" in answer.text
    assert "<html" not in browser.get("/links/nothing/plan?part=true", **{"HX-Request": "true"}).text
    assert browser.get("/v1/nothing").headers["content-type"] == "application/problem+json"


def test_an_operation_is_shown_while_it_goes_on(tokens: Path) -> None:
    """With a button that cancels it; a server that has no file to verify by says so on a page."""
    browser = Browser(tokens)
    refused = browser.post("/links/east-west/verify", allow_lag="yes")

    assert refused.status_code == 409
    assert "has no configuration file" in refused.text
    assert "None yet" in browser.text("/operations")


def test_an_operation_that_is_of_no_link_says_what_it_is_of(tokens: Path) -> None:
    """Such as a cluster; no link is offered that leads nowhere."""
    browser = Browser(tokens)
    moved = [{"topic": "orders", "partition": 0, "replicas": [2]}]
    begun = browser.request("/v1/clusters/north/reassignments", partitions=moved)
    assert begun.status_code == 202

    for path in ("/operations", f"/operations/{begun.json()['operation']}"):
        page = browser.text(path)
        assert "north" in seen_in(page)
        assert not [each for each in marks(page) if each == ("a", {"href": "/links/"})]
    assert "reassign of north" in seen_in(page)
