"""A read-only connection to ZooKeeper, through kazoo (the extra `zookeeper`), with its failures as our errors."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from isthmus.errors import ClusterError, HostError, NotAuthorized, Unreachable
from isthmus.model.cluster import Cluster

if TYPE_CHECKING:
    from kazoo.client import KazooClient

CONNECT_S: Final = 5.0
SESSION_S: Final = 10.0
# kazoo tells of every attempt to connect; what matters of it becomes an error of ours.
_logger = logging.getLogger(f"{__name__}.kazoo")
_logger.setLevel(logging.ERROR)


@contextmanager
def connected(cluster: Cluster) -> Iterator[KazooClient]:
    """A session with the cluster's ZooKeeper, which ends with the block.

    :raises HostError: kazoo is not installed.
    :raises Unreachable: No server of the ensemble answered, or the session was lost.
    :raises NotAuthorized: An access rule of ZooKeeper forbids reading.
    :raises ClusterError: ZooKeeper refused.
    """
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import ConnectionLoss, KazooException, NoAuthError, NoNodeError, SessionExpiredError
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise HostError(
            f"reading the ZooKeeper of {cluster.alias} needs kazoo, which is not installed",
            hint="Install the extra: pip install 'isthmus[zookeeper]'.",
        ) from error
    where = f"the ZooKeeper of {cluster.alias} at {cluster.zookeeper}"
    client = KazooClient(hosts=cluster.zookeeper, timeout=SESSION_S, read_only=True, logger=_logger)
    try:
        with warnings.catch_warnings():
            # A chroot that is not there is told below, when nothing is found in it.
            warnings.simplefilter("ignore", UserWarning)
            client.start(timeout=CONNECT_S)
        yield client
    except (KazooTimeoutError, ConnectionLoss, SessionExpiredError) as error:
        raise Unreachable(
            f"{where} does not answer",
            cluster=cluster.alias,
            hint=f"Check clusters.{cluster.alias}.zookeeper, and whether the servers run.",
        ) from error
    except NoNodeError as error:
        raise ClusterError(
            f"{where} holds no Kafka cluster",
            cluster=cluster.alias,
            hint="Check the chroot: zookeeper.connect of the brokers says it.",
        ) from error
    except NoAuthError as error:
        raise NotAuthorized(
            f"{where} does not allow reading",
            cluster=cluster.alias,
            hint="Isthmus reads ZooKeeper without a login: its nodes have to be readable (zookeeper.set.acl=false).",
        ) from error
    except KazooException as error:
        raise ClusterError(f"{where} refused: {error!r}", cluster=cluster.alias) from error
    finally:
        client.stop()
        client.close()
