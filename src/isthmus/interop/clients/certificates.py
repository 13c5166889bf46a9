"""Converts stores and PEM files of a cluster's clients into the section `tls`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.interop.clients.stores import PemStore, StoreUnreadable, is_pem, opened_store
from isthmus.interop.deployment import Impact, Setting
from isthmus.interop.gathering import Gathering

_KEYTOOL: Final = (
    "Convert it where it is: keytool -importkeystore -srckeystore {file} -destkeystore store.p12 -deststoretype pkcs12 "
    "and then openssl pkcs12 -in store.p12 {options} -out {pem}, beside the configuration."
)


def tls_section(alias: str, settings: Mapping[str, Setting], gathering: Gathering) -> dict[str, object]:
    """Return certificates as PEM files: existing PEM files where they are, others beside the configuration."""
    return _Certificates(alias, settings, gathering).section()


@dataclass(slots=True)
class _Certificates:
    alias: str
    settings: Mapping[str, Setting]
    gathering: Gathering

    def section(self) -> dict[str, object]:
        tls = {**self._authorities(), **self._own()}
        algorithm = self.settings.get("ssl.endpoint.identification.algorithm")
        if algorithm is not None and algorithm.value.strip().lower() not in ("https", "ldaps"):
            tls["verify_hostname"] = False
        return tls

    def _authorities(self) -> dict[str, object]:
        name = f"{self.alias}.ca.pem"
        inline = self.settings.get("ssl.truststore.certificates")
        if inline is not None:
            return {"ca_file": self._inline(name, inline)}
        location = self.settings.get("ssl.truststore.location")
        if location is None:
            return {}
        data = self._data(location, name, "-nokeys")
        if data is None:
            return {"ca_file": f"{self.gathering.folder}/{name}"}
        if is_pem(data):
            return {"ca_file": self._locate(location)}
        store = self._open_store(location, data, "ssl.truststore.password", name, "-nokeys")
        if store is not None and not store.certificates:
            self.gathering.tell(Impact.NEEDED, location, "the store holds no certificates", "Name the store that does.")
        path = f"{self.gathering.folder}/{name}"
        return {"ca_file": path if store is None else self.gathering.file(name, store.certificates.encode())}

    def _own(self) -> dict[str, object]:
        chain, key = self.settings.get("ssl.keystore.certificate.chain"), self.settings.get("ssl.keystore.key")
        if chain is not None and key is not None:
            return {
                "certificate_file": self._inline(f"{self.alias}.certificate.pem", chain),
                "key_file": self._inline(f"{self.alias}.key.pem", key),
                **self._key_password(),
            }
        location = self.settings.get("ssl.keystore.location")
        if location is None:
            return {}
        names = f"{self.alias}.certificate.pem", f"{self.alias}.key.pem"
        data = self._data(location, names[0], "-nodes")
        if data is not None and is_pem(data):
            return {"certificate_file": self._locate(location), **self._key_password()}
        store = None if data is None else self._open_store(location, data, "ssl.keystore.password", names[0], "-nodes")
        if store is None:
            # The command that is suggested makes one file that holds both.
            return {"certificate_file": f"{self.gathering.folder}/{names[0]}"}
        if not store.chain or not store.key:
            todo = "Name the store that does, or remove it if the brokers ask for no certificate."
            self.gathering.tell(Impact.NEEDED, location, "the store holds no certificate with its key", todo)
            return {}
        return {
            "certificate_file": self.gathering.file(names[0], store.chain.encode()),
            "key_file": self.gathering.file(names[1], store.key.encode()),
        }

    def _key_password(self) -> dict[str, object]:
        setting = self.settings.get("ssl.key.password")
        return {} if setting is None else {"key_password": self.gathering.secret(f"{self.alias}.key_password", setting)}

    def _inline(self, name: str, setting: Setting) -> str:
        """Return PEM that is a value, whole or by reference."""
        text = self.gathering.resolve(setting.value)
        if text is None:
            return self.gathering.await_companion(
                name, setting, "it is kept elsewhere and was not given", setting.value
            )
        if not is_pem(text.encode()):
            todo = f"Put it in PEM form into {self.gathering.folder}/{name}."
            self.gathering.tell(Impact.NEEDED, setting, "it is not in PEM form", todo)
        return self.gathering.file(name, f"{text.strip()}\n".encode())

    def _locate(self, location: Setting) -> str:
        return self.gathering.surroundings.locate(self.gathering.require_known(location).strip())

    def _data(self, location: Setting, pem: str, options: str) -> bytes | None:
        file = self.gathering.require_known(location).strip()
        try:
            return self.gathering.surroundings.read(file)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "no such file"
            self._tell_unread(location, f"the file cannot be read here: {reason}", file, pem, options)
            return None

    def _open_store(self, location: Setting, data: bytes, password_key: str, pem: str, options: str) -> PemStore | None:
        passwords: list[str | None] = []
        for key in (password_key, "ssl.key.password"):
            setting = self.settings.get(key)
            passwords.append(None if setting is None else self.gathering.resolve(setting.value))
            if setting is not None and passwords[-1] is None:
                self._tell_unread(setting, "it leads nowhere on this machine", "it", pem, options)
                return None
        try:
            return opened_store(data, *passwords)
        except StoreUnreadable as reason:
            file = self.gathering.require_known(location).strip()
            self._tell_unread(location, f"it names a store that {reason}", file, pem, options)
            return None

    def _tell_unread(self, setting: Setting, why: str, file: str, pem: str, options: str) -> None:
        todo = _KEYTOOL.format(file=file, options=options, pem=f"{self.gathering.folder}/{pem}")
        self.gathering.tell(Impact.NEEDED, setting, why, todo)
