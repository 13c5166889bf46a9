"""The requests of a SASL login as a generator, independent of the connection (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from isthmus.errors import AuthenticationFailed
from isthmus.kafka import codes
from isthmus.kafka.connect.diagnosis import no_mechanism
from isthmus.kafka.connect.security import forget_token, sasl_mechanism
from isthmus.model.cluster import Cluster


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The broker has accepted the login. `session_life_s` is set if it limits the session (KIP-368)."""

    session_life_s: float | None


LoginSteps = Generator[tuple[Any, int], Any, LoggedIn]


def login_steps(cluster: Cluster, host: str, where: str) -> LoginSteps:
    """Yield the requests of a login, each with its version; send the answer in for the next one. Steps may take a
    while: a token is fetched, a key is derived.

    :raises AuthenticationFailed: The broker refuses the login, or does not have the mechanism.
    :raises ConfigError: The mechanism lacks a setting.
    """
    security = cluster.security
    mechanism = sasl_mechanism(cluster, host)
    answer = yield SaslHandshakeRequest(mechanism=security.mechanism), 1
    if answer.error_code != codes.NONE:
        raise no_mechanism(answer.error_code, answer.mechanisms, cluster, where)
    who = f" for user {security.username}" if security.username else ""
    answer = None
    while not mechanism.is_done():
        answer = yield SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()), 1
        if answer.error_code == codes.NONE:
            try:
                mechanism.receive(answer.auth_bytes)
            except ValueError as error:
                answer.error_message = str(error)
            else:
                continue
        forget_token(security)
        section = f"logins.{cluster.login}.security" if cluster.login else "security"
        raise AuthenticationFailed(
            f"{where} refused the login{who}: {answer.error_message or codes.name_of(answer.error_code)}",
            cluster=cluster.alias,
            hint=f"Check {section}.username, {section}.password and {section}.mechanism of this cluster.",
        )
    life_ms = getattr(answer, "session_lifetime_ms", 0) or 0
    return LoggedIn(life_ms / 1000 if life_ms > 0 else None)


def advance(steps: LoginSteps, answer: Any) -> tuple[Any, int] | LoggedIn:
    """Send in an answer, `None` at first. Return the next request, or `LoggedIn` at the end."""
    try:
        return steps.send(answer)
    except StopIteration as done:
        logged_in: LoggedIn = done.value
        return logged_in
