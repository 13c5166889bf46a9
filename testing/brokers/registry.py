"""A schema registry for tests with the semantics of Confluent's, whose own cannot be fetched: modes, ids given in mode
IMPORT and only there, soft and permanent deletion, references, and texts that it writes anew in its own way.
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PAGE_MAX = 3


class Refusal(Exception):
    """An answer with an error, by the number that Confluent's has for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = int(str(code)[:3])
        self.message = message


@dataclass
class Stored:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    content: tuple[str, str, str]
    is_deleted: bool = False

    def told(self) -> dict[str, Any]:
        """It as answers have it."""
        kind, text, references = self.content
        said: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id, "schema": text}
        if kind != "AVRO":
            said["schemaType"] = kind
        if references != "[]":
            said["references"] = json.loads(references)
        return said


@dataclass
class Store:
    """What the registry holds, and what it answers by."""

    versions: dict[tuple[str, int], Stored] = field(default_factory=dict)
    ids: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    in_contexts: dict[str, dict[int, tuple[str, str, str]]] = field(default_factory=dict)
    """The ids of other contexts than the default one."""
    lagging: set[int] = field(default_factory=set)
    """The ids that a replica does not know yet, and denies."""
    modes: dict[str, str] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)

    def ids_of(self, subject: str) -> dict[int, tuple[str, str, str]]:
        """The ids in the context of a subject."""
        context = subject[: subject.index(":", 1) + 1] if subject.startswith(":.") else ""
        return self.in_contexts.setdefault(context, {}) if context else self.ids

    def of(self, subject: str, *, deleted: bool = False) -> list[Stored]:
        """The versions of a subject in their order."""
        found = [each for (name, _), each in sorted(self.versions.items()) if name == subject]
        return [each for each in found if deleted or not each.is_deleted]

    def mode(self, subject: str) -> str:
        """The mode that holds for a subject."""
        return self.modes.get(subject) or self.modes.get("", "READWRITE")

    def register(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """A version, new or there already."""
        content, given, mode = self._content(body), body.get("id", -1), self.mode(subject)
        for each in self.of(subject):
            if each.content == content and given in (-1, each.id):
                return {"id": each.id}
        if mode == "READONLY":
            raise Refusal(42205, f"Subject {subject} is in read-only mode")
        if (given >= 0) != (mode == "IMPORT"):
            raise Refusal(42205, f"Subject {subject} is {'not ' if given >= 0 else ''}in import mode")
        ids = self.ids_of(subject)
        if given >= 0 and ids.get(given, content) != content:
            raise Refusal(42207, f"Overwrite new schema with id {given} is not permitted.")
        if given < 0:
            self._check_compatibility(subject, content)
        known = next((schema_id for schema_id, each in ids.items() if each == content), None)
        schema_id = given if given >= 0 else known or max(ids, default=0) + 1
        numbers = [each.version for each in self.of(subject, deleted=True)]
        number = body.get("version", -1) if given >= 0 else -1
        number = number if number > 0 else max(numbers, default=0) + 1
        ids[schema_id] = content
        self.versions[subject, number] = Stored(subject, number, schema_id, content)
        return {"id": schema_id}

    def _content(self, body: dict[str, Any]) -> tuple[str, str, str]:
        kind, text = body.get("schemaType", "AVRO"), body["schema"]
        references = body.get("references") or []
        for one in references:
            if (one["subject"], one["version"]) not in self.versions:
                raise Refusal(42201, f"No schema reference found for subject {one['subject']}")
        try:
            # Confluent's writes texts in a form of its own as well.
            text = " ".join(text.split()) if kind == "PROTOBUF" else json.dumps(json.loads(text), separators=(",", ":"))
        except ValueError:
            raise Refusal(42201, f"Invalid schema {text}") from None
        return kind, text, json.dumps(references)

    def _check_compatibility(self, subject: str, content: tuple[str, str, str]) -> None:
        """As far as tests need it: a field that is new has a default."""
        level = self.levels.get(subject) or self.levels.get("", "BACKWARD")
        before = self.of(subject)
        if level == "NONE" or not before or content[0] != "AVRO":
            return
        known, new = (json.loads(text) for text in (before[-1].content[1], content[1]))
        if not isinstance(known, dict) or not isinstance(new, dict):
            return
        names = {each["name"] for each in known.get("fields", ())}
        if any(each["name"] not in names and "default" not in each for each in new.get("fields", ())):
            raise Refusal(409, "Schema being registered is incompatible with an earlier schema")

    def some(self, subject: str, *, deleted: bool = False) -> list[Stored]:
        """The versions of a subject, at least one."""
        found = self.of(subject, deleted=deleted)
        if not found:
            raise Refusal(40401, f"Subject '{subject}' not found.")
        return found

    def find(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """The version of a subject that has this schema."""
        content = self._content(body)
        found = next((each for each in self.some(subject) if each.content == content), None)
        if found is None:
            raise Refusal(40403, "Schema not found")
        return found.told()

    def delete_all(self, subject: str, *, permanent: bool) -> list[int]:
        """Delete all versions of a subject."""
        found = self.some(subject, deleted=permanent)
        return [self.delete(subject, str(each.version), permanent=permanent) for each in found]

    def version(self, subject: str, number: str, *, deleted: bool = False) -> Stored:
        """A version by its number, or the latest."""
        found = self.some(subject, deleted=deleted)
        if number == "latest":
            return found[-1]
        each = next((each for each in found if str(each.version) == number), None)
        if each is None:
            raise Refusal(40402, f"Version {number} not found.")
        return each

    def delete(self, subject: str, number: str, *, permanent: bool) -> int:
        """Delete one version, softly or for good."""
        if self.mode(subject) == "READONLY":
            raise Refusal(42205, f"Subject {subject} is in read-only mode")
        each = self.version(subject, number, deleted=True)
        if permanent and not each.is_deleted:
            raise Refusal(
                40407, f"Subject '{subject}' Version {number} was not deleted first before being permanently deleted"
            )
        if not permanent and each.is_deleted:
            raise Refusal(40406, f"Subject '{subject}' Version {number} was soft deleted. Set permanent=true")
        for other in self.versions.values():
            references = {(one["subject"], one["version"]) for one in json.loads(other.content[2])}
            if (subject, each.version) in references and (permanent or not other.is_deleted):
                raise Refusal(42206, f"One or more references exist to the schema {subject} version {number}")
        if permanent:
            del self.versions[subject, each.version]
            ids = self.ids_of(subject)
            if all(other.id != each.id or self.ids_of(other.subject) is not ids for other in self.versions.values()):
                del ids[each.id]
        else:
            each.is_deleted = True
        return each.version

    def set_mode(self, subject: str, mode: str, *, force: bool) -> dict[str, str]:
        """Set the mode, IMPORT only by force where there is something already."""
        there = self.of(subject) if subject else list(self.versions)
        if mode == "IMPORT" and there and not force:
            raise Refusal(42205, "Cannot import since found existing subjects")
        self.modes[subject] = mode
        return {"mode": mode}


@dataclass
class RegistryServer:
    """A registry that runs: `store` is what it holds, `url` where it is."""

    store: Store
    url: str
    login: str = ""
    faults: list[int] = field(default_factory=list)
    """The statuses that the next answers have, in place of what was asked for."""
    strange: dict[str, Any] = field(default_factory=dict)
    """What is answered to paths, in place of what a registry would say."""
    pause_s: float = 0.0
    """The pause after each byte of an answer."""
    asked: list[str] = field(default_factory=list)
    """What was asked, as `METHOD /path`."""

    def register(self, subject: str, schema: object, **more: Any) -> int:
        """Register as a producer does; the id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        found: int = self.store.register(subject, {"schema": text, **more})["id"]
        return found


def _subjects(store: Store, path: list[str], query: dict[str, str], body: dict[str, Any], method: str) -> Any:
    if method == "GET":
        return _read_subject(store, path, deleted=query.get("deleted") == "true")
    permanent = query.get("permanent") == "true"
    match method, path:
        case "POST", [subject, "versions"]:
            return store.register(subject, body)
        case "POST", [subject]:
            return store.find(subject, body)
        case "DELETE", [subject, "versions", number]:
            return store.delete(subject, number, permanent=permanent)
        case "DELETE", [subject]:
            return store.delete_all(subject, permanent=permanent)
    raise Refusal(405, "Method not allowed")


def _read_subject(store: Store, path: list[str], *, deleted: bool) -> Any:
    match path:
        case []:
            return sorted({each.subject for each in store.versions.values() if deleted or not each.is_deleted})
        case [subject, "versions"]:
            return [each.version for each in store.some(subject, deleted=deleted)]
        case [subject, "versions", number]:
            return store.version(subject, number, deleted=deleted).told()
    raise Refusal(404, "Not found")


def _schemas(store: Store, path: list[str], query: dict[str, str]) -> Any:
    if not path:
        deleted, offset = query.get("deleted") == "true", int(query.get("offset", 0))
        found = [each for _, each in sorted(store.versions.items()) if deleted or not each.is_deleted]
        return [each.told() for each in found[offset : offset + min(int(query.get("limit", PAGE_MAX)), PAGE_MAX)]]
    ids = store.ids_of(query.get("subject", ""))
    match path:
        case ["types"]:
            return ["JSON", "PROTOBUF", "AVRO"]
        case ["ids", schema_id, *rest] if int(schema_id) in ids and int(schema_id) not in store.lagging:
            holders = [each for each in store.versions.values() if each.id == int(schema_id)]
            if rest == ["versions"]:
                return [{"subject": each.subject, "version": each.version} for each in holders]
            return Stored("", 0, int(schema_id), ids[int(schema_id)]).told()
    raise Refusal(40403, "Schema not found")


def _settings(
    store: Store, name: str, path: list[str], query: dict[str, str], body: dict[str, Any], method: str
) -> Any:
    subject, held = "".join(path), store.modes if name == "mode" else store.levels
    key, default = ("mode", "READWRITE") if name == "mode" else ("compatibilityLevel", "BACKWARD")
    if method == "GET":
        if subject and subject not in held:
            raise Refusal(40409 if name == "mode" else 40408, f"Subject '{subject}' has none of its own")
        return {key: held.get(subject, default)}
    if method == "DELETE":
        if subject not in held:
            raise Refusal(40401, f"Subject '{subject}' not found.")
        return {key: held.pop(subject)}
    if name == "mode":
        return store.set_mode(subject, body["mode"], force=query.get("force") == "true")
    held[subject] = body["compatibility"]
    return {"compatibility": body["compatibility"]}


class _Listening(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, server: RegistryServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.registry = server
        self.writing = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    server: _Listening

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        first, *path = [unquote(part) for part in target.path.strip("/").split("/")]
        query = {key: values[-1] for key, values in parse_qs(target.query).items()}
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        registry = self.server.registry
        registry.asked.append(f"{self.command} {target.path}")
        try:
            with self.server.writing:
                self._check()
                if target.path in registry.strange:
                    said = registry.strange[target.path]
                else:
                    said = _answer(registry.store, [first, *path], query, body, self.command)
            self._say(200, said)
        except Refusal as refusal:
            self._say(refusal.status, {"error_code": refusal.code, "message": refusal.message})

    do_POST = do_PUT = do_DELETE = do_GET

    def _check(self) -> None:
        registry = self.server.registry
        if registry.faults:
            raise Refusal(registry.faults.pop(0), "as a test wants it")
        if registry.login and self.headers.get("Authorization") != registry.login:
            raise Refusal(40101, "Unauthorized")

    def _say(self, status: int, said: Any) -> None:
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if not self.server.registry.pause_s:
            self.wfile.write(text)
            return
        with contextlib.suppress(OSError):
            for each in text:
                self.wfile.write(bytes([each]))
                self.wfile.flush()
                time.sleep(self.server.registry.pause_s)

    def log_message(self, *_: Any) -> None:
        """Tests say what they expect; nothing is logged."""


def _answer(store: Store, path: list[str], query: dict[str, str], body: dict[str, Any], method: str) -> Any:
    first, *rest = path
    match first:
        case "subjects":
            return _subjects(store, rest, query, body, method)
        case "schemas":
            return _schemas(store, rest, query)
        case "config" | "mode":
            return _settings(store, first, rest, query, body, method)
    raise Refusal(404, "HTTP 404 Not Found")


@contextmanager
def registry_server(*, username: str = "", password: str = "", token: str = "") -> Iterator[RegistryServer]:
    """A registry on a free port of loopback, perhaps with a login."""
    server = RegistryServer(Store(), "")
    if username:
        server.login = f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
    elif token:
        server.login = f"Bearer {token}"
    with _Listening(server) as listening:
        server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
