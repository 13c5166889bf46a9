"""The results while a deployment is turned into a configuration: notices, and files beside the file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import javaproperties

from isthmus.errors import ConfigError
from isthmus.interop.clients.references import Reference, TextPart, Words, escape_text, pieces_of
from isthmus.interop.deployment import Deployment, Impact, Notice, Setting


class Surroundings(Protocol):
    """The machine of the import, as far as the import may look at it."""

    def locate(self, path: str) -> str:
        """Return the absolute path of a file that is written as `path`, whether or not it exists."""
        ...

    def read(self, path: str) -> bytes:
        """Read a file.

        :raises OSError: It cannot be read.
        """
        ...

    def variable(self, name: str) -> str | None:
        """Return an environment variable, `None` if it is not set."""
        ...


@dataclass(frozen=True, slots=True)
class Companion:
    """A file beside the configuration, readable by its owner alone; the name is the path from the configuration's
    folder.
    """

    name: str
    content: bytes = field(repr=False)


@dataclass(slots=True)
class Gathering:
    """Collects notices and files. `folder` is the one beside the configuration for companions."""

    deployment: Deployment
    surroundings: Surroundings
    folder: str
    notices: list[Notice] = field(default_factory=list)
    companions: dict[str, Companion] = field(default_factory=dict)

    def tell(self, impact: Impact, key: Setting | str, why: str, todo: str = "", *, value: str = "") -> None:
        """Add a notice, unless it is there already: one written setting may count for several flows."""
        name, line = (key, None) if isinstance(key, str) else (key.written, key.line)
        notice = Notice(impact=impact, key=name, value=value, line=line, why=why, todo=todo)
        if notice not in self.notices:
            self.notices.append(notice)

    def refusal(self, setting: Setting, problem: str, hint: str) -> ConfigError:
        """Return an error about a value that names its key and its line, and never the value."""
        where = self.deployment.name if setting.line is None else f"{self.deployment.name}:{setting.line}"
        return ConfigError(f"{where}: {setting.written} {problem}", field=setting.written, line=setting.line, hint=hint)

    def require_known(self, setting: Setting) -> str:
        """Return the value with its references replaced, if the configuration itself depends on it.

        :raises ConfigError: A reference leads nowhere on this machine.
        """
        found = self.resolve(setting.value)
        if found is None:
            raise self.refusal(
                setting,
                "refers to a value that cannot be found here",
                "Import where the file or the variable is, or write the value instead of the reference.",
            )
        return found

    def resolve(self, text: str) -> str | None:
        """Return the text with its references replaced, `None` if one of them is unresolved on this machine."""
        values = [self._value(piece) for piece in self.pieces(text)]
        return None if any(value is None for value in values) else "".join(value or "" for value in values)

    def open_text(self, name: str, setting: Setting, text: str | None = None) -> str:
        """Return the form of a value that is no secret in the configuration: as it stands, references as our own."""
        pieces = self.pieces(setting.value if text is None else text)
        return "".join(
            escape_text(piece.text) if isinstance(piece, Words) else self._refer_to(f"{name}.{number}", piece, setting)
            for number, piece in enumerate(pieces, start=1)
        )

    def secret(self, name: str, setting: Setting, text: str | None = None) -> str:
        """Return the form of a secret: a reference. A value in the file itself goes into a companion `name`."""
        pieces = self.pieces(setting.value if text is None else text)
        names = [name] if len(pieces) == 1 else [f"{name}.{number}" for number in range(1, len(pieces) + 1)]
        return "".join(
            self._keep_in_file(each, piece.text, setting)
            if isinstance(piece, Words)
            else self._refer_to(each, piece, setting)
            for each, piece in zip(names, pieces, strict=True)
        )

    def file(self, name: str, content: bytes) -> str:
        """Add a companion; return its path from the configuration's folder."""
        path = f"{self.folder}/{name}"
        self.companions[path] = Companion(path, content)
        return path

    def await_companion(self, name: str, setting: Setting, why: str, text: str | None = None) -> str:
        """Return the path of a companion that the operator has to put there; add a notice about it."""
        path = f"{self.folder}/{name}"
        self.tell(Impact.NEEDED, setting, why, self._how_to_fill(path, text))
        return path

    def pieces(self, text: str) -> tuple[TextPart, ...]:
        """Split a text into literal parts and references."""
        return pieces_of(text, self.deployment.providers)

    def _keep_in_file(self, name: str, text: str, setting: Setting) -> str:
        if text.rstrip("\r\n") != text:
            why = "the secret ends in a line end, which no secret read from a file does"
            self.tell(Impact.NEEDED, setting, why, "Choose another password at the cluster.")
        return f"${{file:{self.file(name, text.encode())}}}"

    def _refer_to(self, name: str, reference: Reference, setting: Setting) -> str:
        """Return a reference of Kafka as our own, or as a companion with its value."""
        file = self.surroundings.locate(reference.file) if reference.file else ""
        ours, value = reference.as_ours(file), self._value(reference)
        if ours is not None:
            if value is None:
                why = f"{reference.written} leads nowhere on this machine"
                self.tell(Impact.NEEDED, setting, why, "Run Isthmus where it leads to the value, or put it there.")
            return ours
        if value is not None:
            return self._keep_in_file(name, value, setting)
        return f"${{file:{self.await_companion(name, setting, _away(reference), reference.written)}}}"

    def _value(self, piece: TextPart) -> str | None:
        if isinstance(piece, Words):
            return piece.text
        try:
            match piece.provider:
                case "EnvVarConfigProvider":
                    return self.surroundings.variable(piece.key)
                case "FileConfigProvider":
                    held = javaproperties.loads(self.surroundings.read(piece.path).decode("latin-1"))
                    return held.get(piece.key)
                case "DirectoryConfigProvider":
                    return self.surroundings.read(piece.file).decode().rstrip("\r\n")
                case "KubernetesSecretConfigProvider":
                    found = self.deployment.secrets.get((piece.path.rpartition("/")[2], piece.key))
                    return None if found is None else found.decode().rstrip("\r\n")
        except (OSError, ValueError):
            pass
        return None

    def _how_to_fill(self, path: str, text: str | None) -> str:
        asked = [
            _kubectl(piece, self.deployment.namespace)
            for piece in self.pieces(text or "")
            if isinstance(piece, Reference) and piece.provider == "KubernetesSecretConfigProvider"
        ]
        if asked:
            return f"Run, in the folder of the configuration: {_all_into(path, asked)}"
        return f"Put it into {path}, beside the configuration, readable by its owner only."


def _kubectl(reference: Reference, namespace: str) -> str:
    given, _, name = reference.path.rpartition("/")
    within = f" -n {shlex.quote(given or namespace)}" if given or namespace else ""
    # The names are those of the file, and the operator may well run this command.
    template = shlex.quote(f'{{{{index .data "{reference.key}" | base64decode}}}}')
    return f"kubectl get secret {shlex.quote(name)}{within} -o go-template={template}"


def _all_into(path: str, commands: Iterable[str]) -> str:
    folder = path.rpartition("/")[0]
    return f"umask 077; mkdir -p {folder}; ({'; '.join(commands)}) > {path}"


def _away(reference: Reference) -> str:
    if reference.provider == "KubernetesSecretConfigProvider":
        return "it is in a secret of Kubernetes, which was not given"
    provider = reference.provider or "that config provider"
    return f"Isthmus has no {provider}, which {reference.written} needs"
