"""A link by its name, which verbs of links take first."""

from __future__ import annotations

from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link


class NamedLink:
    """A link of a configuration by its `name`, for verbs that ask its clusters by the clients of a session."""

    def __init__(self, configuration: Configuration, session: ClientSession, name: str) -> None:
        self.configuration = configuration
        self.session = session
        self.name = name

    @property
    def link(self) -> Link:
        """The link.

        :raises ConfigError: There is none of that name.
        """
        return self.configuration.link(self.name)

    @property
    def target(self) -> Client:
        """The client of its target.

        :raises ConfigError: There is no such link.
        """
        return self.session.client(self.link.target)
