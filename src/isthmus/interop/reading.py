"""Detects the form of a file, and reads the deployment in it."""

from __future__ import annotations

import re
from typing import Final

from isthmus.errors import ConfigError
from isthmus.interop.connectors import read_connectors
from isthmus.interop.deployment import Deployment
from isthmus.interop.properties import read_properties
from isthmus.interop.strimzi import KIND, read_strimzi

BYTES_MAX: Final = 2**20
FORMS: Final = (
    "Give the properties file of connect-mirror-maker.sh, the JSON of Kafka Connect's connectors, or Strimzi's "
    "KafkaMirrorMaker2 resource."
)
_RESOURCE: Final = re.compile(rf"^[ \t-]*[\"']?kind[\"']?\s*:\s*[\"']?{KIND}\b", re.MULTILINE)
_YAML: Final = re.compile(r"^(apiVersion|kind|spec)\s*:", re.MULTILINE)


def read_deployment(data: bytes, name: str) -> Deployment:
    """Read the deployment in a file called `name`, whichever of the forms it has.

    :raises ConfigError: It has none of them, or is broken; with the line.
    """
    if len(data) > BYTES_MAX:
        raise ConfigError(f"{name} has more than {BYTES_MAX >> 20} MiB: it is no configuration", hint=FORMS)
    if not data.strip():
        raise ConfigError(f"{name} is empty", hint=FORMS)
    if b"\0" in data:
        raise ConfigError(f"{name} is no text", hint=FORMS)
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
    if text.lstrip().startswith(("{", "[")) and not _RESOURCE.search(text):
        return read_connectors(_utf8(data, name), name)
    if _RESOURCE.search(text) or _YAML.search(text) or name.endswith((".yaml", ".yml")):
        return read_strimzi(_utf8(data, name), name)
    return read_properties(data, name)


def _utf8(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name} is not UTF-8 text", hint="Save it as UTF-8.") from None
