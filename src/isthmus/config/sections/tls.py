"""The section about certificates, for every connection over TLS."""

from __future__ import annotations

from pydantic import Field, SecretStr

from isthmus.config.sections.fields import Text
from isthmus.config.sections.section import Section


class TlsSection(Section):
    """Certificates, as PEM files. Relative paths start at the folder of the configuration file."""

    ca_file: Text | None = Field(None, description="Certificate authorities to trust; without it, those of the system.")
    certificate_file: Text | None = Field(
        None, description="Our own certificate, for brokers that ask for one (mutual TLS)."
    )
    key_file: Text | None = Field(None, description="The certificate's key; without it, certificate_file holds both.")
    key_password: SecretStr | None = Field(None, description="The password of the key.")
    verify_hostname: bool = Field(
        True, description="Whether a broker's certificate has to name the host we connect to."
    )
