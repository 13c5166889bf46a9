"""The console in a real browser, over real clusters: what people see, press and hear."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect, sync_playwright

from isthmus import config
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.web.access.tokens import Role
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import Given
from testing.repeating import repeating
from testing.rest.asking import Served, serving
from testing.runs.command import Shell
from testing.values.standing import free_port

pytestmark = pytest.mark.integration

AXE = (Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
TERM_MS = TERM_S * 1000
UPDATES, LOOKS = 200, 10
EXPECTED = ("Failed to load resource: the server responded with a status of 401",)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser of this machine, without a window."""
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next((found for found in map(shutil.which, names) if found), None)
    if executable is None:
        pytest.skip("there is no Chromium on this machine: apt install chromium")
    with sync_playwright() as playwright:
        expect.set_options(timeout=TERM_MS)
        browser = playwright.chromium.launch(executable_path=executable)
        yield browser
        browser.close()


class Visitor:
    """Somebody with a tab of his own, in which nothing may go wrong."""

    def __init__(self, browser: Browser, served: Served, scheme: Any = "light") -> None:
        self.served = served
        self.page: Page = browser.new_context(base_url=served.base, color_scheme=scheme).new_page()
        self.page.set_default_timeout(TERM_MS)
        self.wrong: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(dialog.message))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self.wrong.append(message.text)

    def log_in(self, role: Role) -> None:
        """From a page that wants it."""
        self.page.goto(f"/links/{self.served.link}")
        self.page.get_by_label("Token").fill(self.served.tokens[role])
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(f"**/links/{self.served.link}")

    def go(self, path: str) -> None:
        """To a page; `{link}` and `{topic}` are what the server has."""
        self.page.goto(path.replace("{link}", self.served.link).replace("{topic}", self.served.topic))

    def press(self, name: str) -> None:
        """A button."""
        self.page.get_by_role("button", name=name).click()

    @property
    def state(self) -> Locator:
        """The state that a page is about, as it is told to a screen reader."""
        return self.page.locator("dd [role=status]")

    def sees_no_barrier(self) -> None:
        """axe finds nothing that would keep anybody out. It is our tool, not the page's: it goes past its policy."""
        self.page.evaluate(f"{AXE};0")
        found = self.page.evaluate("axe.run()")["violations"]
        assert [(self.page.url, each["id"], each["nodes"][0]["html"]) for each in found] == []


@pytest.fixture
def operator(chromium: Browser, served: Served) -> Iterator[Visitor]:
    """An operator who is logged in."""
    visitor = Visitor(chromium, served)
    visitor.log_in(Role.OPERATOR)
    yield visitor
    visitor.page.context.close()
    assert visitor.wrong == []


def test_a_link_is_paused_and_resumed_and_the_page_follows(operator: Visitor) -> None:
    """By buttons, without loading it anew; who did it is told."""
    operator.press("Pause the link")
    expect(operator.state).to_have_text("PAUSED")
    operator.press("Resume the link")
    expect(operator.state).not_to_have_text("PAUSED")
    operator.go("/links/{link}/topics/{topic}")
    operator.press("Pause this topic")
    expect(operator.state).to_have_text("PAUSED")
    operator.press("Resume this topic")
    expect(operator.state).not_to_have_text("PAUSED")

    operator.go("/changes")
    first = operator.page.locator("tbody tr").first
    expect(first).to_contain_text("a operator")
    expect(first).to_contain_text("resume")
    expect(first).to_contain_text("done")


def test_a_group_of_any_name_is_drilled(operator: Visitor, east: LocalCluster) -> None:
    """What is in its name stays text, and the operation is followed to its result."""
    group = f'{operator.served.link}-"><img src=x onerror=alert(1)><script>alert(2)</script>'
    consumers.commit(east, {group: {(operator.served.topic, 0): 5}})
    operator.go("/links/{link}/groups")

    section = operator.page.locator("section.group", has=operator.page.get_by_role("heading", name=group))
    row = section.locator("tbody tr").first
    expect(row).to_contain_text(operator.served.topic)
    expect(row).to_contain_text("5")
    operator.sees_no_barrier()
    section.get_by_role("button").click()
    operator.page.wait_for_url("**/operations/*")
    expect(operator.state).not_to_have_text("RUNNING")
    expect(operator.page.locator("h1")).to_contain_text("drill")
    operator.sees_no_barrier()


def test_a_verification_is_begun_and_cancelled(operator: Visitor) -> None:
    """Its steps are shown while it goes on."""
    operator.press("Verify both sides")
    expect(operator.state).to_have_text("RUNNING")
    expect(operator.page.get_by_text("starting isthmus verify")).to_be_visible()
    operator.sees_no_barrier()
    operator.press("Cancel")
    expect(operator.state).to_have_text("CANCELLED")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_keeps_anybody_out(chromium: Browser, served: Served, scheme: str) -> None:
    """On light and on dark; every page can be reached by the keyboard, and the charts are drawn."""
    visitor = Visitor(chromium, served, scheme)
    visitor.go("/login")
    visitor.sees_no_barrier()
    visitor.log_in(Role.VIEWER)
    expect(visitor.page.locator(".u-over").nth(1)).to_be_attached()
    expect(visitor.page.get_by_role("link", name=served.topic)).to_be_visible()
    visitor.sees_no_barrier()
    for path in ("/links/{link}/plan", "/links/{link}/groups"):
        visitor.go(path)
        expect(visitor.page.locator("#part table").first).to_be_visible()
        visitor.sees_no_barrier()
    for path in ("/links/{link}/topics/{topic}", "/operations", "/changes", "/gateways", "/links/nothing"):
        visitor.go(path)
        visitor.wrong = [each for each in visitor.wrong if "404" not in each]
        if path in ("/changes", "/gateways"):
            expect(visitor.page.get_by_text("Looking at all clusters")).to_have_count(0)
        visitor.sees_no_barrier()
    visitor.go("/")
    expect(visitor.page.locator("svg .road")).to_have_count(1)
    visitor.sees_no_barrier()
    visitor.page.keyboard.press("Tab")
    expect(visitor.page.get_by_text("Skip to content")).to_be_focused()
    visitor.page.locator(".map a").focus()
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url(f"**/links/{served.link}")
    visitor.page.context.close()
    assert visitor.wrong == []


def test_a_tree_is_drawn(chromium: Browser, east: LocalCluster, west: LocalCluster, tmp_path: Path) -> None:
    """On its page, which keeps nobody out, and by itself: the policy of the console refuses nothing of the drawing."""
    tree, file = f"tree-{secrets.token_hex(4)}", tmp_path / "isthmus.yaml"
    clusters = {each.cluster().alias: {"bootstrap_servers": each.bootstrap_servers} for each in (east, west)}
    trees = [{"name": tree, "clusters": ["east", "west"], "topics": [f"{tree}.*"]}]
    file.write_text(yaml.safe_dump({"clusters": clusters, "trees": trees}))
    with serving(config.load(file), tmp_path, file) as served:
        visitor = Visitor(chromium, served)
        visitor.log_in(Role.VIEWER)
        visitor.go(f"/trees/{tree}")
        drawing = visitor.page.get_by_role("img", name=f"The tree {tree}")
        assert drawing.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
        visitor.sees_no_barrier()
        visitor.go(f"/trees/{tree}/drawing.svg")
        box = visitor.page.locator("rect").first
        assert box.evaluate("each => [getComputedStyle(each).fill, getComputedStyle(each).stroke]") == [
            "none",
            "rgb(0, 0, 0)",
        ]
        visitor.page.context.close()
    # A drawing by itself names no icon, and the browser looks for one.
    assert [each for each in visitor.wrong if "404" not in each] == []


class Kept(NamedTuple):
    """What a browser keeps of a page when everything was let go of that nothing needs: elements that were taken out of
    it and did not go included.
    """

    nodes: float
    heap_bytes: float


def kept(page: Page) -> Kept:
    """What is kept now."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    told = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return Kept(told["Nodes"], told["JSHeapUsedSize"])


def test_a_run_shows_its_rates_as_they_change(
    chromium: Browser, tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """The console beside a run: the map, the link and its topic show how much is copied a second while records come,
    and that it is nothing when they come no more, on pages that nobody loads anew.
    """
    shell = Shell(tmp_path, east, west, topic("live"))
    topics.create(east, name := f"{shell.stem}.a")
    address = f"127.0.0.1:{free_port()}"
    flowing, still = re.compile(r"[1-9]"), re.compile(r"^0(?![.,\d])")
    options = ("--serve", address, "--tokens", str(tmp_path / "tokens.json"))
    with shell.start("run", *options, "-o", "json") as command:
        served = Served(f"http://{address}", shell.stem, Configuration(clusters=(), links=()), {})
        listening(address, command)
        map_, link = Visitor(chromium, served), Visitor(chromium, served)
        map_.go("/")
        row = map_.page.locator("tbody tr", has_text=shell.stem)
        expect(row).to_contain_text("ACTIVE")
        link.go("/links/{link}")
        expect(link.state).to_have_text("ACTIVE")
        rates = [
            row.locator("td.number").nth(2),
            map_.page.locator("svg a .told", has_text=re.compile(r"· [\d,.]*[1-9][\d,.]*/s")),
            link.page.locator("dl.facts div", has_text="Throughput").locator("dd"),
            link.page.locator("tbody tr", has_text=name).locator("td.number").nth(2),
        ]
        with repeating(lambda: topics.produce(east, name, [Given(b"k", b"v", [], topics.SEPTEMBER)] * 50), pause_s=0.1):
            for rate in rates:
                expect(rate).to_have_text(flowing)
        for rate in (rates[0], rates[2], rates[3]):
            expect(rate).to_have_text(still)
        for visitor in (map_, link):
            visitor.page.context.close()
        command.send_signal(signal.SIGTERM)
        command.communicate(timeout=TERM_S)
    assert (command.returncode, map_.wrong, link.wrong) == (143, [], [])


def listening(address: str, command: subprocess.Popen[str]) -> None:
    """Wait until somebody may connect."""
    host, _, port = address.partition(":")
    deadline = time.monotonic() + TERM_S
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection((host, int(port))):
            return
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_page_that_stays_open_does_not_grow(chromium: Browser, served: Served) -> None:
    """However long it has followed it has as many elements as before, those that it took out included, and no more in
    memory; who was at a field still is.
    """
    visitor = Visitor(chromium, served)
    visitor.log_in(Role.VIEWER)
    expect(visitor.page.get_by_role("link", name=served.topic)).to_be_visible()
    visitor.page.clock.install()
    visitor.go("/links/{link}")
    expect(visitor.page.locator(".u-over").nth(1)).to_be_attached()
    field = visitor.page.get_by_label("Name has")
    field.fill("a part")
    before = visitor.page.locator("*").count()
    begun: list[str] = []
    asked: list[str] = []
    visitor.page.on("request", lambda request: begun.append(request.url))
    for end in ("requestfinished", "requestfailed"):
        visitor.page.on(end, lambda request: asked.append(request.url))

    def followed(count: int) -> Kept:
        """What the browser keeps of the page once it has asked so often for what is new: the least of some looks, as
        one may come while an update is put in.
        """
        looks: list[Kept] = []
        while len(asked) < count or len(looks) < LOOKS:
            visitor.page.clock.run_for(3000)
            while len(asked) < len(begun):
                # The page's time would be over before a busy server has answered.
                visitor.page.wait_for_timeout(5)
            if len(asked) >= count:
                looks.append(kept(visitor.page))
        return Kept(min(look.nodes for look in looks), min(look.heap_bytes for look in looks))

    warm = followed(UPDATES)
    late = followed(3 * UPDATES)
    assert late.nodes <= warm.nodes + 50
    # A day has 28,800 updates: a kilobyte that stayed of each would be found here, and be 30 MB by then.
    assert late.heap_bytes - warm.heap_bytes < 2 * UPDATES * 1024
    assert visitor.page.locator("*").count() <= before + 5
    expect(field).to_be_focused()
    expect(field).to_have_value("a part")
    visitor.page.context.close()
    assert visitor.wrong == []
