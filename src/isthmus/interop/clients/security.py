"""Converts the client settings of a cluster into its section of the configuration: addresses, transport, login."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from isthmus.config.sections.clientproperties import property_problem
from isthmus.interop.clients.certificates import tls_section
from isthmus.interop.clients.clients import ANSWERED, CLIENTS, PASSED, client_equivalent, is_known_client_setting
from isthmus.interop.clients.jaas import JaasLogin, NoJaas, parse_jaas
from isthmus.interop.clients.references import escape_text
from isthmus.interop.deployment import Impact, Setting, Settings
from isthmus.interop.gathering import Gathering
from isthmus.interop.names import split_list

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_ADDRESS: Final = re.compile(r"(?:[0-9A-Za-z%._-]*://)?(\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/,]+):(\d{1,5})")
UNSUPPORTED: Final = {
    "GSSAPI": (
        "Isthmus does not speak Kerberos",
        "Create a SCRAM user (kafka-configs --alter --add-config 'SCRAM-SHA-512=[...]') or a certificate for Isthmus.",
    ),
    "AWS_MSK_IAM": (
        "Isthmus does not speak the IAM login of Amazon MSK",
        "Enable SASL/SCRAM or mutual TLS beside IAM on the MSK cluster, and give Isthmus such a login.",
    ),
}
"""Mechanisms by name: the reason why they cannot be used, and the remedy."""
_OAUTH_CLIENT: Final = {
    "client_id": ("clientId", "oauth.client.id"),
    "client_secret": ("clientSecret", "oauth.client.secret"),
    "scope": ("scope", "oauth.scope"),
    "token_endpoint_url": ("oauth.token.endpoint.uri",),
}
"""By our keys the options of the login modules of Kafka and of Strimzi."""


@dataclass(slots=True)
class ClusterDraft:
    """The section of a cluster during its conversion; comments are by the keys of the line after them."""

    section: dict[str, object] = field(default_factory=dict)
    comments: dict[tuple[str, ...], str] = field(default_factory=dict)


def cluster_draft(alias: str, settings: Settings, gathering: Gathering) -> ClusterDraft:
    """Return the section of a cluster.

    :raises ConfigError: It has no addresses, or a value that cannot be used.
    """
    return _Reader(alias, _common(settings, gathering), gathering).draft()


def _common(settings: Settings, gathering: Gathering) -> dict[str, Setting]:
    """Return the settings of the cluster, including those for single clients only; add notices about all others."""
    read = ANSWERED | PASSED
    common = {key: setting for key, setting in settings.items() if key in read}
    for key, setting in settings.items():
        client, _, rest = key.partition(".")
        if client not in CLIENTS or rest not in read:
            continue
        known = common.setdefault(rest, setting)
        if known.value == setting.value:
            continue
        if rest in PASSED:
            why = f"a cluster has one set of properties for all clients: {known.written} is taken"
            gathering.tell(Impact.CHANGED, setting, why, "", value=setting.value)
        else:
            why = f"a cluster has one login for all clients: {known.written} is taken"
            gathering.tell(Impact.LOST, setting, why, "Give that user all the rights that are needed.")
    for key, setting in settings.items():
        client, _, rest = key.partition(".")
        if key not in read and not (client in CLIENTS and rest in read):
            _tell_other(key, setting, gathering)
    return common


def _tell_other(key: str, setting: Setting, gathering: Gathering) -> None:
    found = client_equivalent(key)
    if found is None:
        why = "neither Kafka nor Isthmus has such a setting of a cluster"
        gathering.tell(
            Impact.UNKNOWN, setting, why, "Correct it if it is misspelt, and import again; else leave it out."
        )
    elif setting.value not in found.off:
        # A setting with an unknown name may be a secret with a misspelt one.
        value = setting.value if is_known_client_setting(key) else ""
        gathering.tell(found.impact, setting, found.why, found.todo, value=value)


@dataclass(slots=True)
class _Reader:
    alias: str
    settings: dict[str, Setting]
    gathering: Gathering
    made: ClusterDraft = field(default_factory=ClusterDraft)

    def draft(self) -> ClusterDraft:
        self.made.section["bootstrap_servers"] = self._addresses()
        security = self._security()
        if security:
            self.made.section["security"] = security
        properties = self._properties()
        if properties:
            self.made.section["properties"] = properties
        return self.made

    def _value(self, key: str) -> str:
        """Return the value with its references replaced, "" if it is not given."""
        setting = self.settings.get(key)
        return "" if setting is None else self.gathering.require_known(setting).strip()

    def _addresses(self) -> list[str]:
        setting = self.settings.get("bootstrap.servers")
        if setting is None or not setting.value.strip():
            key = Setting("", f"{self.alias}.bootstrap.servers")
            raise self.gathering.refusal(
                key, "is missing", f"Give the addresses of brokers of {self.alias}: host:9092."
            )
        addresses: list[str] = []
        for item in split_list(self.gathering.require_known(setting)):
            found = _ADDRESS.fullmatch(item)
            if found is None or not 0 < int(found[2]) < 65536:
                problem = "holds an address that is not host:port"
                raise self.gathering.refusal(setting, problem, "Write such as broker-1:9092, broker-2:9092.")
            addresses.append(escape_text(f"{found[1]}:{found[2]}"))
        return addresses

    def _properties(self) -> dict[str, object]:
        passed: dict[str, object] = {}
        has_tls = self._value("security.protocol").upper().endswith("SSL")
        for name in sorted(PASSED & self.settings.keys()):
            if name.startswith("ssl.") and not has_tls:
                continue
            value = self._value(name)
            problem = property_problem(name, value)
            if problem is None:
                passed[name] = value
            else:
                self.gathering.tell(Impact.LOST, self.settings[name], f"it {problem[0]} for Isthmus", "")
        return passed

    def _security(self) -> dict[str, object]:
        protocol = self._value("security.protocol").upper() or "PLAINTEXT"
        if protocol not in _PROTOCOLS:
            setting = self.settings["security.protocol"]
            raise self.gathering.refusal(setting, "is no protocol of Kafka", f"Write one of {', '.join(_PROTOCOLS)}.")
        self._tell_idle(protocol)
        if protocol == "PLAINTEXT":
            return {}
        section: dict[str, object] = {"protocol": protocol}
        if protocol.startswith("SASL_"):
            section.update(self._login())
        if protocol.endswith("SSL"):
            tls = tls_section(self.alias, self.settings, self.gathering)
            if tls:
                section["tls"] = tls
        return section

    def _tell_idle(self, protocol: str) -> None:
        """Add notices for settings of a login or of TLS that the protocol does not use."""
        for key, setting in self.settings.items():
            is_idle = (key.startswith("sasl.") and not protocol.startswith("SASL_")) or (
                key.startswith("ssl.") and not protocol.endswith("SSL")
            )
            if is_idle:
                self.gathering.tell(Impact.UNNEEDED, setting, f"security.protocol is {protocol}, which does not use it")

    def _login(self) -> dict[str, object]:
        login = self._jaas()
        mechanism = self._value("sasl.mechanism").upper() or ("AWS_MSK_IAM" if _is_iam(login) else "GSSAPI")
        if mechanism == "OAUTHBEARER" and _is_iam(login):
            mechanism = "AWS_MSK_IAM"
        if mechanism in _PASSWORDS:
            return {"mechanism": mechanism, **self._password(login)}
        if mechanism == "OAUTHBEARER":
            return {"mechanism": mechanism, **self._oauth(login)}
        why, todo = UNSUPPORTED.get(mechanism, (f"Isthmus has no mechanism {mechanism}", UNSUPPORTED["GSSAPI"][1]))
        setting = self.settings.get("sasl.mechanism") or self.settings.get("sasl.jaas.config")
        key = setting or Setting("", f"{self.alias}.sasl.mechanism")
        self.gathering.tell(
            Impact.NEEDED, key, why, f"{todo} Then add mechanism, username and password.", value=mechanism
        )
        self.made.comments["security", "protocol"] = f"mechanism is missing: {why}."
        return {}

    def _jaas(self) -> JaasLogin:
        setting = self.settings.get("sasl.jaas.config")
        if setting is None:
            return JaasLogin("", {})
        text: str | None = setting.value
        if re.fullmatch(r"\s*\$\{[^}]*\}\s*", setting.value):
            # The whole value is a reference: it has to be read to be split.
            text = self.gathering.resolve(setting.value)
        if text is None:
            self.gathering.tell(
                Impact.NEEDED,
                setting,
                "it refers to a value that cannot be found here",
                f"Add username and password to clusters.{self.alias}.security, by reference.",
            )
            return JaasLogin("", {})
        try:
            return parse_jaas(text)
        except NoJaas as problem:
            hint = 'It looks like: org.apache...ScramLoginModule required username="me" password="${file:...}";'
            raise self.gathering.refusal(setting, f"cannot be read: {problem}", hint) from None

    def _password(self, login: JaasLogin) -> dict[str, object]:
        setting = self.settings.get("sasl.jaas.config")
        if setting is None:
            missing = f"{self.alias}.sasl.jaas.config"
            self.gathering.tell(
                Impact.NEEDED,
                missing,
                "it is missing",
                f"Add username and password to clusters.{self.alias}.security.",
            )
            return {}
        found: dict[str, object] = {}
        if "username" in login.options:
            found["username"] = self.gathering.open_text(f"{self.alias}.username", setting, login.options["username"])
        if "password" in login.options:
            found["password"] = self.gathering.secret(f"{self.alias}.password", setting, login.options["password"])
        if login.module and len(found) < 2:
            todo = f"Add username and password to clusters.{self.alias}.security."
            self.gathering.tell(Impact.NEEDED, setting, "it does not give both a username and a password", todo)
        return found

    def _oauth(self, login: JaasLogin) -> dict[str, object]:
        setting = self.settings.get("sasl.jaas.config") or Setting("", f"{self.alias}.sasl.jaas.config")
        given = {
            ours: login.options[theirs]
            for ours, options in _OAUTH_CLIENT.items()
            for theirs in options
            if theirs in login.options
        }
        for ours, theirs in (
            ("token_endpoint_url", "sasl.oauthbearer.token.endpoint.url"),
            ("client_id", "sasl.oauthbearer.client.credentials.client.id"),
            ("client_secret", "sasl.oauthbearer.client.credentials.client.secret"),
            ("scope", "sasl.oauthbearer.scope"),
        ):
            if theirs in self.settings:
                given[ours] = self.settings[theirs].value
        missing = [key for key in ("token_endpoint_url", "client_id", "client_secret") if key not in given]
        if missing:
            why = f"Isthmus gets tokens by client credentials only, and there is no {' and no '.join(missing)}"
            todo = (
                f"Create a client with a secret at the token server, and complete clusters.{self.alias}.security.oauth."
            )
            self.gathering.tell(Impact.NEEDED, setting, why, todo)
        oauth: dict[str, object] = {}
        for key in ("token_endpoint_url", "client_id", "client_secret", "scope"):
            if key in given:
                write = self.gathering.secret if key == "client_secret" else self.gathering.open_text
                oauth[key] = write(f"{self.alias}.{key}", setting, given[key])
        return {"oauth": oauth} if oauth else {}


def _is_iam(login: JaasLogin) -> bool:
    return login.module == "IAMLoginModule"
