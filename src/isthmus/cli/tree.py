"""All commands with their options and arguments, as a table for completion."""

from __future__ import annotations

import enum
import importlib
import json
from typing import Any, Final

from typer.main import get_command

from isthmus.cli.app import COMMANDS, app
from isthmus.cli.noun import SYNONYMS, Noun
from isthmus.fabric.answers import task_names

_BY_METAVAR: Final = {
    "LINK": "link",
    "LINK[/TOPIC]": "target",
    "TOPIC": "topic",
    "GROUP": "group",
    "ALIAS": "cluster",
    "CLUSTER": "cluster",
    "LEAF": "cluster",
    "TREE": "tree",
    "CONTEXT": "context",
}
_BY_OPTION: Final = {
    "--link": "link",
    "--topic": "topic",
    "--group": "group",
    "--cluster": "cluster",
    "--config": "file",
    "--task": f"choice:{','.join(task_names())}",
}
_ANY: Final = "text"


def command_tree() -> str:
    """Return the table as JSON. An option has the kind of its value, or "" without a value."""
    whole: Any = get_command(app)
    for name, command in COMMANDS.items():
        whole.commands[name] = get_command(importlib.import_module(command.module).app)
    tree = _node(whole)
    tree["commands"]["help"]["arguments"] = [f"choice:{','.join(['exit-codes', 'errors', *COMMANDS])}"]
    return json.dumps(tree, indent=1, sort_keys=True) + "\n"


def _node(command: Any) -> dict[str, Any]:
    options = {"--help": "", "-h": ""}
    arguments = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            arguments.append(_by_metavar(parameter) or _choices(parameter) or _ANY)
        elif not parameter.hidden:
            kind = _option_kind(parameter)
            options.update(dict.fromkeys((*parameter.opts, *parameter.secondary_opts), kind))
    commands = {name: _node(each) for name, each in getattr(command, "commands", {}).items()}
    synonyms = SYNONYMS if isinstance(command, Noun) else {}
    shorter = {short: name for short, name in synonyms.items() if name in commands and short not in commands}
    return {"options": options, "arguments": arguments, "commands": commands, "synonyms": shorter}


def _option_kind(parameter: Any) -> str:
    if parameter.is_flag or parameter.count:
        return ""
    named = next((_BY_OPTION[name] for name in parameter.opts if name in _BY_OPTION), None)
    return named or _by_metavar(parameter) or _choices(parameter) or _ANY


def _by_metavar(parameter: Any) -> str | None:
    """Return the kind of value by its name in the help."""
    return _BY_METAVAR.get(parameter.metavar or parameter.name.upper())


def _choices(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    is_closed = isinstance(kind, type) and issubclass(kind, enum.Enum)
    return f"choice:{','.join(str(each.value) for each in kind)}" if is_closed else ""
