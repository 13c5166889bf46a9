"""What a lease is given for its way."""

from __future__ import annotations

from pathlib import Path

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.model.cluster import Cluster, Secret, SecretOrigin, Security
from isthmus.model.link import Limits
from isthmus.model.text.reference import FileReference
from isthmus.spark.leases.lease import LinkContext


def test_credentials_of_the_day(tmp_path: Path) -> None:
    """Executors need not have the driver's files: a lease is sent what they hold when it begins, for both clusters."""
    file = tmp_path / "password"
    file.write_text("new")
    security = Security(
        password=Secret("old"), origins=(SecretOrigin(field=("password",), parts=(FileReference(str(file)),)),)
    )
    cluster = Cluster(alias="east", bootstrap_servers=("127.0.0.1:9192",), security=security)
    producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
    context = LinkContext(link="l", source=cluster, target=cluster, producer=producer, limits=Limits())

    renewed = context.renew(Limits(bytes_per_s=5))

    assert renewed.limits.bytes_per_s == 5
    assert renewed.source.security.password == renewed.target.security.password == Secret("new")
