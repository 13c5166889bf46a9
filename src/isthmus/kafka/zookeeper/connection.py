"""A read-only connection to ZooKeeper, through kazoo (the extra `zookeeper`), with its failures as our errors."""

from __future__ import annotations

import importlib.util
import logging
import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from isthmus.errors import AuthenticationFailed, ClusterError, HostError, NotAuthorized, Unreachable
from isthmus.kafka.connect.address import split_address
from isthmus.kafka.connect.certificates import context_of
from isthmus.kafka.connect.credentials import renewed_zookeeper
from isthmus.model.cluster import Cluster, ZooKeeper

if TYPE_CHECKING:
    from kazoo.client import KazooClient

CONNECT_S: Final = 5.0
SESSION_S: Final = 10.0
# kazoo logs every attempt to connect; relevant failures become errors of ours.
_logger = logging.getLogger(f"{__name__}.kazoo")
_logger.setLevel(logging.CRITICAL)


@contextmanager
def open_session(cluster: Cluster) -> Iterator[KazooClient]:
    """Open a session with the cluster's ZooKeeper, which ends with the block.

    :raises HostError: kazoo, or its login package, is not installed.
    :raises Unreachable: No server of the ensemble answered, or the session was lost.
    :raises AuthenticationFailed: ZooKeeper refused the login, requires one, or its certificate is not trusted.
    :raises NotAuthorized: An access rule of ZooKeeper forbids reading.
    :raises ClusterError: ZooKeeper refused.
    """
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import (
            AuthFailedError,
            ConnectionLoss,
            KazooException,
            NoAuthError,
            NoNodeError,
            SessionClosedRequireSaslError,
            SessionExpiredError,
        )
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise _missing_package_error("reading", "kazoo", cluster) from error
    zookeeper = renewed_zookeeper(cluster.zookeeper) if cluster.zookeeper is not None else ZooKeeper(connect="")
    where = f"the ZooKeeper of {cluster.alias} at {zookeeper}"
    settings = _settings(zookeeper, cluster)
    _check_tls(cluster, zookeeper, where)
    was_refused = threading.Event()
    settings |= {"timeout": SESSION_S, "read_only": True, "logger": _logger, "handler": _build_handler(was_refused)}
    client = KazooClient(hosts=zookeeper.connect, **settings)
    try:
        with warnings.catch_warnings():
            # A missing chroot is reported below, when no node is found in it.
            warnings.simplefilter("ignore", UserWarning)
            client.start(timeout=CONNECT_S)
        yield client
    except AuthFailedError as error:
        raise _login_error(cluster, zookeeper, where) from error
    except SessionClosedRequireSaslError as error:
        raise _login_missing_error(cluster, where) from error
    except (KazooTimeoutError, ConnectionLoss, SessionExpiredError) as error:
        if was_refused.is_set():
            raise _login_error(cluster, zookeeper, where) from error
        raise _no_answer_error(cluster, zookeeper, where) from error
    except NoNodeError as error:
        raise ClusterError(
            f"{where} holds no Kafka cluster",
            cluster=cluster.alias,
            hint="Check the chroot: zookeeper.connect of the brokers has it.",
        ) from error
    except NoAuthError as error:
        raise NotAuthorized(
            f"{where} does not allow reading",
            cluster=cluster.alias,
            hint=f"Give clusters.{cluster.alias}.zookeeper the username and password of one who may read its nodes.",
        ) from error
    except KazooException as error:
        raise ClusterError(f"{where} refused: {error!r}", cluster=cluster.alias) from error
    finally:
        client.stop()
        client.close()


def _build_handler(was_refused: threading.Event) -> Any:
    """Build the thread handler of a client that notes a refused login: only the connecting thread sees that error."""
    from kazoo.exceptions import SessionClosedRequireSaslError
    from kazoo.handlers.threading import SequentialThreadingHandler

    handler = SequentialThreadingHandler()
    spawn, create_connection = handler.spawn, handler.create_connection
    connections: list[Any] = []

    def create(*arguments: object, **named: object) -> Any:
        connections[:] = [create_connection(*arguments, **named)]
        return connections[0]

    def spawn_guarded(work: Callable[..., object], *arguments: object, **named: object) -> object:
        def run_guarded() -> None:
            try:
                work(*arguments, **named)
            except SessionClosedRequireSaslError:
                was_refused.set()
                # kazoo does not close it then.
                connections[0].close()

        return spawn(run_guarded)

    handler.spawn, handler.create_connection = spawn_guarded, create
    return handler


def _login_missing_error(cluster: Cluster, where: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"{where} asks for a login",
        cluster=cluster.alias,
        hint=f"Give clusters.{cluster.alias}.zookeeper a username and a password.",
    )


def _login_error(cluster: Cluster, zookeeper: ZooKeeper, where: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"{where} refused the login of user {zookeeper.username}",
        cluster=cluster.alias,
        hint=f"Check clusters.{cluster.alias}.zookeeper.username and password.",
    )


def _settings(zookeeper: ZooKeeper, cluster: Cluster) -> dict[str, Any]:
    """The settings of kazoo for login and TLS."""
    settings: dict[str, Any] = {}
    if zookeeper.username is not None and zookeeper.password is not None:
        if importlib.util.find_spec("puresasl") is None:
            raise _missing_package_error("logging in to", "pure-sasl", cluster)
        settings["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": zookeeper.username,
            "password": zookeeper.password.reveal(),
        }
    if (tls := zookeeper.tls) is not None:
        settings |= {
            "use_ssl": True,
            "ca": tls.ca_file,
            "certfile": tls.certificate_file,
            "keyfile": tls.key_file,
            "keyfile_password": None if tls.key_password is None else tls.key_password.reveal(),
            "check_hostname": tls.verify_hostname,
        }
    return settings


def _check_tls(cluster: Cluster, zookeeper: ZooKeeper, where: str) -> None:
    """Check that a server accepts TLS: kazoo would only report that none answers.

    :raises AuthenticationFailed: A server does not.
    """
    if zookeeper.tls is None:
        return
    key = f"clusters.{cluster.alias}.zookeeper"
    context = context_of(zookeeper.tls, cluster.alias, "zookeeper")
    for server in zookeeper.connect.split("/")[0].split(","):
        host, port = split_address(server, cluster.alias)
        try:
            with (
                socket.create_connection((host, port), timeout=CONNECT_S) as plain,
                context.wrap_socket(plain, server_hostname=host),
            ):
                return
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(
                f"{where} shows a certificate that is not trusted: {error.verify_message}",
                cluster=cluster.alias,
                hint=f"Give {key}.tls.ca_file the authority that signed it; a name in it has to be the one in connect.",
            ) from error
        except ssl.SSLError as error:
            raise AuthenticationFailed(
                f"{where} does not speak TLS, or wants another certificate",
                cluster=cluster.alias,
                hint=f"Name the secure port (secureClientPort) in {key}.connect, or leave tls out.",
            ) from error
        except OSError:
            # kazoo asks the others as well.
            continue


def _no_answer_error(cluster: Cluster, zookeeper: ZooKeeper, where: str) -> Unreachable:
    login = "" if zookeeper.username else " It may ask for a login (username, password) or for TLS (tls)."
    return Unreachable(
        f"{where} does not answer",
        cluster=cluster.alias,
        hint=f"Check clusters.{cluster.alias}.zookeeper, and whether the servers run.{login}",
    )


def _missing_package_error(what: str, package: str, cluster: Cluster) -> HostError:
    return HostError(
        f"{what} the ZooKeeper of {cluster.alias} needs {package}, which is not installed",
        hint="Install the extra: pip install 'isthmus[zookeeper]'.",
    )
