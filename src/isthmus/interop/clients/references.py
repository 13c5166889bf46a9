"""References to values: those of Kafka's config providers, and those of the configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_USUAL: Final = {
    "file": "FileConfigProvider",
    "env": "EnvVarConfigProvider",
    "dir": "DirectoryConfigProvider",
    "directory": "DirectoryConfigProvider",
    "secrets": "KubernetesSecretConfigProvider",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference of Kafka. `provider` is the class that resolves it, without its package."""

    written: str
    provider: str
    path: str
    key: str

    @property
    def file(self) -> str:
        """The file that it refers to, "" for another kind."""
        if self.provider == "FileConfigProvider":
            return self.path
        return f"{self.path.rstrip('/')}/{self.key}" if self.provider == "DirectoryConfigProvider" else ""

    def as_ours(self, file: str) -> str | None:
        """Return the same reference for the configuration, `None` if it has no such form. `file` is the path of its
        file.
        """
        if self.provider == "EnvVarConfigProvider":
            return f"${{env:{self.key}}}"
        if not self.path or ":" in file + self.key:
            return None
        if self.provider == "FileConfigProvider":
            return f"${{file:{file}:{self.key}}}"
        return f"${{file:{file}}}" if self.provider == "DirectoryConfigProvider" else None


@dataclass(frozen=True, slots=True)
class Words:
    """Text as it stands; `repr` keeps it, as it may be a secret."""

    text: str = field(repr=False)


TextPart = Words | Reference


def pieces_of(text: str, providers: Mapping[str, str]) -> tuple[TextPart, ...]:
    """Split a text into literal parts and references, in order. `providers` are classes by name;
    usual names need none.
    """
    found: list[TextPart] = []
    begin = 0
    for at, end in _braces(text):
        # As Kafka's ConfigTransformer has it: ${provider:path:key}, where the path may be missing.
        name, *rest = text[at + 2 : end].split(":", 2)
        provider = providers.get(name) or _USUAL.get(name)
        if not rest or provider is None:
            continue  # Kafka leaves alone what no provider stands for
        if at > begin:
            found.append(Words(text[begin:at]))
        path, key = rest if len(rest) == 2 else ("", rest[0])
        found.append(Reference(text[at : end + 1], provider.rpartition(".")[2], path, key))
        begin = end + 1
    if begin < len(text) or not found:
        found.append(Words(text[begin:]))
    return tuple(found)


def _braces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where `${` begins and the next `}` ends it."""
    at = text.find("${")
    while at >= 0:
        end = text.find("}", at)
        if end < 0:
            return
        yield at, end
        at = text.find("${", end)


def escape_text(text: str) -> str:
    """Escape a text for the configuration file."""
    return text.replace("${", "$${")
