"""Who is let in to the console: by which cookie, from which pages, and with which role."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

from isthmus.web.access.sessions import OPEN_MAX, TERM_S, Sessions
from isthmus.web.access.tokens import Role, TokenFile
from testing.rest.browsing import BASE, Browser


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A file of tokens that is not there yet."""
    return tmp_path / "tokens.json"


def test_without_tokens_this_host_may_look_and_change(tokens: Path) -> None:
    """As with the API."""
    page = Browser(tokens).text("/links/east-west")

    assert "local (admin)" in page
    assert "Pause the link" in page


def test_with_tokens_the_way_in_is_the_login(tokens: Path) -> None:
    """It leads back to where somebody wanted to go, with a cookie that no script can read."""
    secret = TokenFile(tokens).create("alice", Role.VIEWER)
    browser = Browser(tokens)

    away = browser.get("/links/east-west?sort=topic")
    assert (away.status_code, away.headers["location"]) == (303, "/login?next=/links/east-west%3Fsort%3Dtopic")
    assert "/links/east-west?sort=topic" in browser.text(away.headers["location"])
    assert browser.post("/login", token="isthmus_wrong").status_code == 401
    entered = browser.post("/login", token=secret, next="/links/east-west?sort=topic")
    assert (entered.status_code, entered.headers["location"]) == (303, "/links/east-west?sort=topic")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly; SameSite=Strict" in cookie
    assert "Secure" not in cookie
    assert secret not in cookie
    assert "alice (viewer)" in browser.text("/links/east-west")


def test_under_tls_the_cookie_is_sent_over_tls_only(tokens: Path) -> None:
    """The browser is told so."""
    secret = TokenFile(tokens).create("alice", Role.VIEWER)
    browser = Browser(tokens, base="https://127.0.0.1:8087")

    entered = browser.post("/login", {"Origin": "https://127.0.0.1:8087"}, token=secret)
    assert entered.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "https://evil.example/", "/\\evil.example", "x", "/a\r\nb: c", "//[", "http://[x"],
)
def test_the_login_leads_nowhere_else(tokens: Path, wanted: str) -> None:
    """What an address says of where to go next counts only for paths of this server."""
    secret = TokenFile(tokens).create("alice", Role.VIEWER)
    browser = Browser(tokens)

    assert browser.get(f"/login?next={quote(wanted)}").status_code == 200
    assert browser.post("/login", token=secret, next=wanted).headers["location"] == "/"


@pytest.mark.parametrize("path", ["/links/%E2%98%83%3Fa%2Fb?sort=name", "/links/a%20b"])
def test_the_login_leads_back_to_any_name(tokens: Path, path: str) -> None:
    """Whatever is in it: a snowman, a question mark, a slash."""
    secret = TokenFile(tokens).create("alice", Role.VIEWER)
    browser = Browser(tokens)

    login = browser.get(path).headers["location"]
    (wanted,) = parse_qs(urlsplit(login).query)["next"]
    assert f'value="{wanted}"' in browser.text(login)
    assert browser.post("/login", token=secret, next=wanted).headers["location"] == path
    assert browser.post("/login", token=secret, next=unquote(wanted)).status_code == 303


def test_a_session_ends_with_its_token_with_a_logout_and_with_the_day(tokens: Path) -> None:
    """Whichever is first; a part of a page that is still open leads to the login."""
    file = TokenFile(tokens)
    secrets = {name: file.create(name, Role.ADMIN) for name in ("alice", "bob")}
    browser = Browser(tokens)

    browser.log_in(secrets["alice"])
    assert browser.get("/").status_code == 200
    file.revoke("alice")
    assert browser.get("/").status_code == 303
    assert browser.get("/", **{"HX-Request": "true"}).headers["hx-redirect"] == "/login"
    browser.log_in(secrets["bob"])
    assert browser.get("/").status_code == 200
    assert browser.post("/logout").headers["location"] == "/login"
    assert browser.get("/").status_code == 303

    now = 1000.0
    sessions = Sessions(file, clock=lambda: now)
    value = sessions.open(secrets["bob"])
    assert value is not None
    assert sessions.find(value) is not None
    carol = file.create("carol", Role.VIEWER)
    for _ in range(2 * OPEN_MAX):
        assert sessions.open(carol)
    assert sessions.find(value) is not None, "others log in as often as they like"
    now += TERM_S
    assert sessions.find(value) is None


def test_a_session_is_for_the_console_alone(tokens: Path) -> None:
    """The API wants the token itself, which no page of another site can have a browser send."""
    secret = TokenFile(tokens).create("alice", Role.ADMIN)
    browser = Browser(tokens)
    browser.log_in(secret)

    assert browser.get("/").status_code == 200
    assert browser.get("/v1/links").status_code == 401


def test_who_may_only_look_has_no_buttons_and_changes_nothing(tokens: Path) -> None:
    """A form that is sent all the same is refused."""
    secret = TokenFile(tokens).create("alice", Role.VIEWER)
    browser = Browser(tokens)
    browser.log_in(secret)

    assert "Pause the link" not in browser.text("/links/east-west")
    for path in ("/links/east-west/pause", "/links/east-west/verify", "/links/east-west/drill", "/operations/x/cancel"):
        refused = browser.post(path)
        assert (refused.status_code, "needs operator" in refused.text) == (403, True)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": BASE, "Sec-Fetch-Site": "same-site"},
        {"Origin": "http://[x"},
    ],
    ids=str,
)
def test_changes_are_taken_from_pages_of_our_own_only(tokens: Path, headers: dict[str, str]) -> None:
    """A browser says where a form was; whoever says nothing of it is refused as well, at the login too."""
    browser = Browser(tokens)

    for path in ("/links/east-west/pause", "/login", "/logout", "/operations/x/cancel"):
        assert browser.post(path, headers).status_code == 403


def test_a_link_on_another_page_may_lead_here_but_nothing_more(tokens: Path) -> None:
    """Following it shows a page; reading it from there, or as a part of that page, is refused."""
    browser = Browser(tokens)
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}

    assert browser.get("/links/east-west", **visit).status_code == 200
    assert browser.get("/links/east-west", **{**visit, "Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert browser.get("/links/east-west", **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert browser.get("/v1/links", **visit).status_code == 403


def test_another_name_for_this_host_shows_nothing(tokens: Path) -> None:
    """A page whose name was made to lead here is told so."""
    assert Browser(tokens).get("/", Host="evil.example").status_code == 421
