"""Writes the generated pages of this folder, and the table of commands for completion; with --check only says whether
they are up to date.
"""

from __future__ import annotations

import json
import sys
import tempfile
import types
import typing
from collections.abc import Iterator
from pathlib import Path

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from isthmus.cli.completion import TREE
from isthmus.cli.tree import command_tree
from isthmus.config import fields, keys, network, schema
from isthmus.config.contexts import VARIABLE as CONTEXT_VARIABLE
from isthmus.config.places import DEFAULT_NAME, SMALLEST, SYSTEM_FOLDER, VARIABLE
from isthmus.errors import error_classes, exit_codes, what_happened
from isthmus.metrics.catalogue import METRICS, MetricScope
from isthmus.model.checks import CHECKS
from isthmus.model.configuration import Configuration
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from isthmus.web.guard import RateLimit
from isthmus.web.tokens import TokenFile

FOLDER = Path(__file__).parent
TYPES: dict[object, str] = {
    fields.Size: "size",
    fields.Address: "host:port",
    fields.ZooKeeperServers: "host:port,.../path",
    fields.Pattern: "pattern",
    fields.GroupPatternText: "pattern",
    fields.PropertyPatternText: "pattern",
    fields.PrincipalPatternText: "pattern",
    fields.Name: "name",
    fields.Url: "address",
    fields.Master: "address",
    network.ProxyUrl: "address",
    fields.Text: "text",
    SecretStr: "secret",
    str: "text",
    bool: "true or false",
    int: "whole number",
    float: "number",
}
INTRODUCTION = f"""\
# Configuration

<!-- Written by `make docs` from the models in src/isthmus/config/schema.py. -->

Isthmus reads one YAML file: the one given with `-c`, else that of the context which `--context` or `{CONTEXT_VARIABLE}`
names, else the one that `{VARIABLE}` names, else the first `{DEFAULT_NAME}` in the working directory, in the folders
above it (as far as one with `.git`, or the home; folders into which anybody may write are passed over), that of the
current context, in `$XDG_CONFIG_HOME/isthmus` (by default `~/.config/isthmus`), and in `{SYSTEM_FOLDER}`.
`isthmus context` gives files names, and chooses the current one; `isthmus context show` says which file counts here.
`isthmus init` writes one to start with. The smallest one is

```yaml
{SMALLEST}```

An unknown key, a wrong type or a contradiction is an error that names the place, the line and what
to write instead; `isthmus config check` tells all of them at once, and which PEM files cannot be
used; `isthmus config show` prints what the file amounts to, defaults included and secrets masked. A
PEM file is read for every connection: a run waits for one that is missing as for a cluster that is away.

**Variables** of the environment replace keys of the file, for one machine or one command. The name of the variable is
`ISTHMUS_` and the keys on the way from the top, in capitals, with `__` between them and `_` for whatever is no letter
and no digit: `ISTHMUS_CLUSTERS__EAST__SECURITY__PASSWORD`, `ISTHMUS_LINKS__EAST_WEST__LIMITS__BYTES_PER_S=10MB`,
`ISTHMUS_LEDGER__REPLICATION_FACTOR=1`. Items of a list go by their `name`, or their position. The value is text where
the key takes text, else YAML: `ISTHMUS_LINKS__EAST_WEST__TOPICS__INCLUDE='[orders, flights]'`. A variable that names
no key is an error; `isthmus config check` lists those that are in force.

**Secrets** belong outside the file. Any text may refer to one:

| written | means |
|---|---|
| `${{env:NAME}}` | the environment variable `NAME` |
| `${{file:/path}}` | what the file holds, without its last line ends |
| `${{file:/path:key}}` | the value of `key` in a Java properties file |
| `${{dir:/path:name}}` | what the file `name` in that folder holds, as Kubernetes mounts a secret |
| `${{prompt:what}}` | what is typed on the terminal, unseen, once in a process |
| `${{keyring:service:user}}` | what the system's keyring keeps (`pip install 'isthmus[keyring]'`) |
| `$${{` | a plain `${{` |

A reference that leads nowhere is an error; a secret written out is a warning. Relative paths, here
and for certificates, start at the folder of the configuration file.

User names, passwords, token secrets and the passwords of keys that stand in files are read again for every
connection, so rotating them needs no restart. An executor that has no such file goes by what the driver read when
the present lease began. Where logins never expire (`connections.max.reauth.ms` of the brokers is 0), connections that
are open stay open.

**Sizes** are numbers of bytes, or texts with a unit: `B`, the decimal `kB`, `MB`, `GB`, `TB` and the binary
`KiB`, `MiB`, `GiB`, `TiB`, as in `512 KiB` or `1.5 GB`. They are written as here: `Mb` and `mb` are bits to some
and bytes to others, and are refused, as is `10 M`. **Times** are plain numbers; the key's name ends in their
unit: `margin_s: 1.5`.

**Topic patterns** are names (`orders`), prefixes (`orders.*`, and `*` for all) or regular
expressions between slashes (`/audit-[0-9]+/`), which have to match the whole name. Exclusion wins
over inclusion, nothing matches by default, and names starting with `__` are never mirrored. Two
links may not write the same topic of the same cluster.
"""


ERRORS_INTRODUCTION = """\
# Errors and exit codes

<!-- Written by `make docs` from src/isthmus/errors.py. -->

Every error has a code that stays what it is: it stands in the message on stderr (`Error ISTH-CONFIG: ...`), with a
suggestion below it, and in `-o json` as the `code` of a problem (null where a problem was found by looking, and is no
error). `isthmus help ISTH-CONFIG` shows a section of this page, `isthmus help exit-codes` the table.

## Exit codes

| exit code | meaning |
|---|---|"""


CHECKS_INTRODUCTION = """
## Findings

`isthmus doctor` and `isthmus cluster` give what they find codes too, which are no errors: `code` in `-o json` is null
where all is well. The message of a finding names what it is about, and its hint what to do there."""


def errors_page() -> str:
    """Every error with what happened and what to do, and the table of exit codes, in Markdown."""
    lines = [ERRORS_INTRODUCTION]
    for code, meanings in exit_codes().items():
        lines.append(f"| {code} | {'<br>'.join(meanings)} |")
    for error in error_classes():
        passes = " It may pass by itself: the same call may succeed later." if error.retryable else ""
        lines += [
            f"\n## {error.error_code}\n",
            f"Exit code {error.exit_code}; `{error.__name__}` in Python.\n",
            f"**What happened.** {what_happened(error)}{passes}\n",
            f"**What to do.** {error.remedy}",
        ]
    lines.append(CHECKS_INTRODUCTION)
    for check in CHECKS.values():
        lines += [
            f"\n## {check.code}\n",
            f"A finding of `{check.name}`.\n",
            f"**What was found.** {check.found}\n",
            f"**What to do.** {check.remedy}",
        ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The reference of the configuration file, in Markdown."""
    return "\n".join([INTRODUCTION, *_sections(schema.FabricSection, "")])


def _sections(section: type[schema.Section], path: str) -> Iterator[str]:
    yield f"## `{path}`\n" if path else "## Top level\n"
    yield f"{section.__doc__}\n"
    yield "| key | type | default | |\n|---|---|---|---|"
    hints = typing.get_type_hints(section, include_extras=True)
    inner = {}
    for name, field in section.model_fields.items():
        described = (field.description or "").replace("|", "\\|")
        yield f"| `{name}` | {_type(hints[name])} | {_default(field)} | {described} |"
        held = keys.section_of(field.annotation)
        if held is not None:
            inner[_path(path, name, field.annotation)] = held
    yield ""
    for inner_path, held in inner.items():
        yield from _sections(held, inner_path)


def _path(path: str, name: str, annotation: object) -> str:
    full = f"{path}.{name}" if path else name
    origin = typing.get_origin(annotation)
    return full + (".<alias>" if origin is dict else "[]" if origin is tuple else "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}) or isinstance(value, schema.Section):
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _type(annotation: object) -> str:
    if annotation in TYPES:
        return TYPES[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (types.UnionType, typing.Union):
        return _type(arguments[0])
    if origin is tuple:
        return f"list of {_type(arguments[0])}".replace("section", "sections")
    if origin is dict:
        return f"map of {_type(arguments[1])}".replace("section", "sections")
    return "section"


METRICS_BEGIN, METRICS_END = "<!-- Written by `make docs` from here", "<!-- to here. -->"
SCOPES = {
    MetricScope.PROCESS: "For each process",
    MetricScope.LINK: "For each link",
    MetricScope.TASK: "For each task of a link",
    MetricScope.GROUP: "For each consumer group",
    MetricScope.TOPIC: "For each topic",
    MetricScope.PARTITION: "For each partition, with `--metrics-partitions`",
}


def metrics_page(text: str) -> str:
    """The page about metrics with the tables of all there are, which stand between two marks."""
    before, begin, rest = text.partition(METRICS_BEGIN)
    _, end, after = rest.partition(METRICS_END)
    lines = [f"{begin}, from src/isthmus/metrics/catalogue.py. -->"]
    for scope, title in SCOPES.items():
        lines += [f"\n### {title}\n", "| metric | kind | labels | |\n|---|---|---|---|"]
        for metric in METRICS:
            if metric.scope is scope:
                labels = ", ".join(f"`{label}`" for label in metric.labels)
                lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
    return before + "\n".join(lines) + "\n\n" + end + after


def openapi() -> str:
    """What the REST API says of itself, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        desk = FabricDesk(Configuration(clusters=(), links=()))
        app = create_app(desk, TokenFile(Path(folder) / "tokens.json"), RateLimit(1, 1))
    described = app.openapi()
    return json.dumps(described, indent=1, sort_keys=True) + "\n"


def main() -> int:
    """Write the pages, or compare them; the exit code says whether they were up to date."""
    outdated = 0
    pages = {FOLDER / "configuration.md": page(), FOLDER / "errors.md": errors_page(), TREE: command_tree()}
    pages[FOLDER / "openapi.json"] = openapi()
    told = FOLDER / "metrics.md"
    pages[told] = metrics_page(told.read_text(encoding="utf-8"))
    for target, text in pages.items():
        if "--check" not in sys.argv:
            target.write_text(text, encoding="utf-8")
        elif not target.is_file() or target.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{target.name} is out of date: run make docs\n")
            outdated = 1
    return outdated


if __name__ == "__main__":
    sys.exit(main())
