"""The security of a local cluster: a certificate, two users, and what the ordinary one may do.

Clients log in over SASL_SSL. `admin` is a super user, `isthmus` an ordinary user with the rights
a link needs. With the certificate authority of your clients there is a listener for mutual TLS
too, where the principal is the common name of the client's certificate. The brokers talk among
themselves, and administrators to them, over a PLAINTEXT listener where everybody is a super user:
this is a cluster to try things on, no vault.
"""

from __future__ import annotations

import hashlib
import secrets
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from kafka.protocol.admin.acl import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    CreateAclsRequest,
)
from kafka.protocol.admin.users import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)

from isthmus.deadline import Deadline
from isthmus.errors import HostError
from isthmus.kafka.codes import raise_for_code
from isthmus.local.folders import write_atomic
from isthmus.local.java import Java
from isthmus.local.probe import ask
from isthmus.model.cluster import SaslMechanism, Secret, Security, Tls
from isthmus.model.kafka.rights import on_cluster

User = Literal["admin", "isthmus"]
USERS: Final[tuple[User, ...]] = ("admin", "isthmus")

_ITERATIONS: Final = 4096
# KIP-554: the numbers of the mechanisms, and the hash each is made with.
_SCRAM: Final = {1: "sha256", 2: "sha512"}
_KEYTOOL_TERM_S: Final = 60.0
_KNOWN_TERM_S: Final = 30.0
_POLL_S: Final = 0.02
_RIGHTS: Final = {
    (ACLResourceType.TOPIC, "*"): (
        ACLOperation.READ,
        ACLOperation.WRITE,
        ACLOperation.CREATE,
        ACLOperation.DELETE,
        ACLOperation.ALTER,
        ACLOperation.DESCRIBE,
        ACLOperation.DESCRIBE_CONFIGS,
        ACLOperation.ALTER_CONFIGS,
    ),
    (ACLResourceType.GROUP, "*"): (ACLOperation.READ, ACLOperation.DESCRIBE),
    (ACLResourceType.TRANSACTIONAL_ID, "*"): (ACLOperation.WRITE, ACLOperation.DESCRIBE),
    (ACLResourceType.CLUSTER, "kafka-cluster"): (
        ACLOperation.ALTER,
        ACLOperation.DESCRIBE,
        ACLOperation.DESCRIBE_CONFIGS,
        ACLOperation.IDEMPOTENT_WRITE,
    ),
}


class Credentials:
    """Passwords and certificate of one cluster, in files below `folder` that only the user reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def ca_file(self) -> Path:
        """PEM: what clients trust."""
        return self.folder / "ca.pem"

    def password_file(self, user: User) -> Path:
        return self.folder / f"{user}.password"

    def password(self, user: User) -> Secret:
        return Secret(self.password_file(user).read_text())

    def make(self, java: Java) -> None:
        """Make what is not there yet.

        :raises HostError: The Java runtime has no working keytool.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in (*(self.password_file(user) for user in USERS), self._store_password_file):
            if not name.exists():
                write_atomic(name, secrets.token_urlsafe(24), mode=0o600)
        if not self.ca_file.exists():
            self._make_certificate(java)

    def security(self, user: User, mechanism: SaslMechanism) -> Security:
        """Return the login of a client over SASL_SSL."""
        return Security(
            protocol="SASL_SSL",
            tls=Tls(ca_file=str(self.ca_file)),
            mechanism=mechanism,
            username=user,
            password=self.password(user),
        )

    def broker_properties(self, client_ca_file: str | None) -> dict[str, str]:
        """Return the entries of `server.properties` for the secured listeners."""
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        users = " ".join(f'user_{user}="{self.password(user).reveal()}"' for user in USERS)
        sasl = "listener.name.sasl_ssl"
        mutual = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": client_ca_file or "",
            f"{sasl}.ssl.client.auth": "requested",
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }
        return {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
            f"{sasl}.scram-sha-512.sasl.jaas.config": scram,
            f"{sasl}.scram-sha-256.sasl.jaas.config": scram,
            f"{sasl}.plain.sasl.jaas.config": f"{plain} {users};",
            # Tokens are accepted without a signature: enough to see a client present one.
            f"{sasl}.oauthbearer.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer"
            '.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self._store),
            "ssl.keystore.password": self._store_password_file.read_text(),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            **(mutual if client_ca_file else {}),
        }

    def zookeeper_properties(self) -> dict[str, str]:
        """Return the settings of a ZooKeeper for a port with TLS."""
        return {
            "ssl.keyStore.location": str(self._store),
            "ssl.keyStore.password": self._store_password_file.read_text(),
        }

    @property
    def _store(self) -> Path:
        return self.folder / "broker.p12"

    @property
    def _store_password_file(self) -> Path:
        return self.folder / "keystore.password"

    def _make_certificate(self, java: Java) -> None:
        self._store.unlink(missing_ok=True)
        self._keytool(
            java,
            *("-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650"),
            *("-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1,dns:localhost"),
            # The certificate is its own authority, so that one file is all a client has to trust.
            *("-ext", "bc:critical=ca:true,pathlen:0"),
        )
        write_atomic(self.ca_file, self._keytool(java, "-exportcert", "-rfc"))

    def _keytool(self, java: Java, *arguments: str) -> str:
        store = ("-storetype", "PKCS12", "-keystore", str(self._store))
        quick = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-XX:-UsePerfData")
        password = ("-storepass:file", str(self._store_password_file))
        try:
            return subprocess.run(
                [str(java.keytool), *arguments, "-alias", "broker", *store, *password, *quick],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_KEYTOOL_TERM_S,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError) as error:
            output = getattr(error, "stdout", None) or error
            raise HostError(
                f"keytool could not make a certificate: {output}",
                hint=f"Check that {java.keytool} works; it belongs to every Java runtime.",
            ) from error


def admit_users(ports: Sequence[int], credentials: Credentials, *, cluster: str) -> None:
    """Give the ordinary user its rights and both their SCRAM credentials, known to all brokers.

    `ports` are those of the PLAINTEXT listeners. Doing it again changes nothing.
    (CreateAcls, KIP-140; AlterUserScramCredentials, KIP-554.)

    :raises ClusterError: The brokers refused it, or do not answer.
    """
    answer = ask(ports[0], CreateAclsRequest(creations=list(_rights("isthmus"))), cluster=cluster)
    for result in answer.results:
        raise_for_code(result.error_code, "the rights of user isthmus", on_cluster("ALTER"), cluster=cluster)
    for mechanism, hash_name in _SCRAM.items():
        # A request may name a user only once, whatever the mechanism.
        upsertions = [_scram(user, mechanism, hash_name, credentials.password(user)) for user in USERS]
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
        for result in ask(ports[0], request, cluster=cluster).results:
            raise_for_code(result.error_code, f"user {result.user}", on_cluster("ALTER"), cluster=cluster)
    _wait_until_known(ports, cluster)


def _wait_until_known(ports: Sequence[int], cluster: str) -> None:
    # Each broker answers from its own copy of the metadata, which follows the controllers' in
    # order: one that knows the last credential knows the rights too.
    deadline = Deadline(_KNOWN_TERM_S)
    while not all(_credentials_known_to(port, cluster) == len(USERS) * len(_SCRAM) for port in ports):
        if deadline.has_passed:
            raise HostError(
                f"the brokers of {cluster} do not learn of its users",
                hint="Stop the cluster and start it again; their logs may state why.",
            )
        time.sleep(_POLL_S)


def _credentials_known_to(port: int, cluster: str) -> int:
    answer = ask(port, DescribeUserScramCredentialsRequest(users=None), cluster=cluster)
    return sum(len(result.credential_infos) for result in answer.results)


def _scram(
    user: User, mechanism: int, hash_name: str, password: Secret
) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    salt = secrets.token_bytes(16)
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=_ITERATIONS,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(hash_name, password.reveal().encode(), salt, _ITERATIONS),
    )


def _rights(user: User) -> Iterator[CreateAclsRequest.AclCreation]:
    for (kind, name), operations in _RIGHTS.items():
        for operation in operations:
            yield CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=ACLResourcePatternType.LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=ACLPermissionType.ALLOW,
            )
