"""A source whose brokers have readers read from followers (KIP-392), although they tell no rack."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from isthmus.local.jvm import Jvm, jvm_for
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from testing.records import topics
from testing.records.topics import Given
from testing.runs.mirror import Mirror, all_are

pytestmark = pytest.mark.integration

SELECTOR = """
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.replica.*;

public class Elsewhere implements ReplicaSelector {
    public Optional<ReplicaView> select(TopicPartition partition, ClientMetadata client, PartitionView view) {
        return view.replicas().stream().filter(replica -> !replica.equals(view.leader())).findFirst();
    }
}
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers whose leaders name a follower to every reader, whatever it tells."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("there is no Java compiler")
    folder = tmp_path_factory.mktemp("selector")
    (folder / "Elsewhere.java").write_text(SELECTOR)
    environment = jvm_for("broker-4.4.0").environment
    subprocess.run([javac, "-d", str(folder), str(folder / "Elsewhere.java")], env=environment, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Jvm, "environment", property(lambda jvm: _with(folder, jvm.class_path)))
        properties = {"replica.selector.class": "Elsewhere"}
        with LocalCluster.start("elsewhere", brokers=2, heap_mb=256, properties=properties) as cluster:
            yield cluster


def _with(folder: Path, class_path: str) -> dict[str, str]:
    return {"CLASSPATH": f"{class_path}:{folder}", "PATH": "/usr/bin:/bin"}


def test_a_source_that_sends_its_readers_away(
    elsewhere: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Its leaders give us nothing: the lane says so, instead of waiting for records that never come."""
    name = topic("elsewhere")
    topics.create(elsewhere, name, assigned=[[1, 2]])
    topics.create(west, name)
    topics.produce(elsewhere, name, [Given(None, b"1", [], topics.SEPTEMBER)])

    reports = Mirror(elsewhere, west).copy(name, until=all_are(LaneState.SOURCE_UNAVAILABLE))

    problem = reports[LaneKey(TargetTopic(name), 0)].problem
    assert problem is not None
    assert "has its readers read from replica 2" in problem.message
    assert "replica.selector.class" in problem.hint
