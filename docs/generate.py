"""Writes the generated pages of this folder, and the table of commands for completion; with --check only says whether
they are up to date.
"""

from __future__ import annotations

import inspect
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
from isthmus.config.reading import keys
from isthmus.config.reading.contexts import VARIABLE as CONTEXT_VARIABLE
from isthmus.config.reading.places import DEFAULT_NAME, SMALLEST, SYSTEM_FOLDER, VARIABLE
from isthmus.config.sections import fields, network, schema
from isthmus.errors import error_classes, exit_codes, what_happened
from isthmus.metrics.catalogue import GATEWAY_METRICS, METRICS, OF_A_RUN, MetricScope
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.checks import CHECKS
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk

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

<!-- Written by `make docs` from the models in src/isthmus/config/sections/schema.py. -->

Isthmus reads one YAML file, the first of these:

1. the file given with `-c`;
2. that of the context which `--context` or `{CONTEXT_VARIABLE}` names;
3. the file that `{VARIABLE}` names;
4. `{DEFAULT_NAME}` in the working directory, or in a folder above it (as far as a folder with `.git`, or the home;
   folders into which every user may write are skipped);
5. that of the current context;
6. `{DEFAULT_NAME}` in `$XDG_CONFIG_HOME/isthmus` (by default `~/.config/isthmus`), then in `{SYSTEM_FOLDER}`.

`isthmus context` gives names to files, and chooses the current one; `isthmus context show` shows the file in use.
`isthmus init` writes a file to start with. The smallest file is

```yaml
{SMALLEST}```

An unknown key, a wrong type or a contradiction is an error that names the place, the line and the correction. `isthmus
config check` reports all errors at once, and which PEM files cannot be
used. `isthmus config show` prints the resulting configuration, with defaults included and secrets masked. A
PEM file is read for every connection: if it is missing, a run waits for it as for a cluster that is away.

**Environment variables** replace keys of the file, for one machine or one command. The name of the variable is
`ISTHMUS_` and the path of keys from the top, in capitals, with `__` between keys and `_` for every character that is no
letter and no digit: `ISTHMUS_CLUSTERS__EAST__SECURITY__PASSWORD`, `ISTHMUS_LINKS__EAST_WEST__LIMITS__BYTES_PER_S=10MB`,
`ISTHMUS_LEDGER__REPLICATION_FACTOR=1`. Items of a list go by their `name`, or by their position. The value is text if
the key takes text, else YAML: `ISTHMUS_LINKS__EAST_WEST__TOPICS__INCLUDE='[orders, flights]'`. A variable that names
no key is an error; `isthmus config check` lists the variables in use.

**Secrets** belong outside the file. Any text may refer to one:

| written | means |
|---|---|
| `${{env:NAME}}` | the environment variable `NAME` |
| `${{file:/path}}` | the content of the file, without its last line ends |
| `${{file:/path:key}}` | the value of `key` in a Java properties file |
| `${{dir:/path:name}}` | the content of the file `name` in that folder, as Kubernetes mounts a secret |
| `${{prompt:what}}` | a text typed on the terminal, unseen, once in a process |
| `${{keyring:service:user}}` | a secret of the system's keyring (`pip install 'isthmus[keyring]'`) |
| `$${{` | a plain `${{` |

A reference that leads nowhere is an error; a secret written out causes a warning. Relative paths, here
and for certificates, start at the folder of the configuration file.

User names, passwords, token secrets and passwords of keys in files are read again for every
connection, so rotating them needs no restart. An executor without such a file uses the state that the driver read
when the present lease began. If logins never expire (`connections.max.reauth.ms` of the brokers is 0), open connections
stay open.

**Sizes** are numbers of bytes, or texts with a unit: `B`, the decimal `kB`, `MB`, `GB`, `TB` and the binary
`KiB`, `MiB`, `GiB`, `TiB`, as in `512 KiB` or `1.5 GB`. Units are spelled exactly so: `Mb` and `mb` mean bits to some
readers and bytes to others, and are refused, as is `10 M`. **Times** are plain numbers; the key's name ends in their
unit: `margin_s: 1.5`.

**Topic patterns** are names (`orders`), prefixes (`orders.*`, and `*` for all) or regular
expressions between slashes (`/audit-[0-9]+/`), which have to match the whole name. One that could
take for ever is refused, as is one that repeats something more than 1,000 times. Exclusion wins over inclusion,
nothing matches by default, and names starting with `__` are never copied, nor is `_schemas`, the topic of a schema
registry. Two links may not write the same topic of the same cluster.
"""


ERRORS_INTRODUCTION = """\
# Errors and exit codes

<!-- Written by `make docs` from src/isthmus/errors.py. -->

Every error has a code that never changes. The message on stderr contains it (`Error ISTH-CONFIG: ...`), with a
suggestion below. In `-o json` it is the `code` of a problem (null if a problem was found by looking, and is no
error). `isthmus help ISTH-CONFIG` shows a section of this page, `isthmus help exit-codes` the table.

## Exit codes

| exit code | meaning |
|---|---|"""


CHECKS_INTRODUCTION = """
## Findings

Findings of `isthmus doctor` and `isthmus cluster` have codes too, but are no errors: `code` in `-o json` is null
if all is well. The message of a finding names its subject, and its hint what to do there."""


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
    yield f"{inspect.cleandoc(section.__doc__ or '')}\n"
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
    MetricScope.GATEWAY: "For each gateway ([gateway.md](gateway.md)), which also reports `isthmus_build_info`",
}


def metrics_page(text: str) -> str:
    """The page about metrics with the tables of all there are, which stand between two marks."""
    before, begin, rest = text.partition(METRICS_BEGIN)
    _, end, after = rest.partition(METRICS_END)
    lines = [f"{begin}, from src/isthmus/metrics/catalogue.py. -->"]
    for scope, title in SCOPES.items():
        lines += [f"\n### {title}\n", "| metric | kind | labels | |\n|---|---|---|---|"]
        for metric in (*METRICS, *GATEWAY_METRICS):
            if metric.scope is scope and (metric in METRICS) is (scope is not MetricScope.GATEWAY):
                labels = ", ".join(f"`{label}`" for label in metric.labels)
                lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
    lines.append("\n### Known to runs only\n\n`isthmus serve` leaves these out:\n")
    lines += [f"- `{metric.name}`" for metric in METRICS if metric.name in OF_A_RUN]
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
