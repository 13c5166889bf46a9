"""A group of commands about one kind of thing, with the short names that people type every day."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperGroup

SYNONYMS: Final = {"ls": "list", "get": "list", "desc": "describe", "rm": "delete"}
"""Other names for commands, used if the group has none of that name itself."""


class Noun(TyperGroup):
    """Accept `ls` and `get` for `list`, `desc` for `describe` and `rm` for `delete`."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        return found or super().get_command(ctx, SYNONYMS.get(cmd_name, cmd_name))
