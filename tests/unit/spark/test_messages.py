"""What a JVM says reaches stderr, but for what every JVM of Spark says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from isthmus.spark.messages import passing_on

SAYING = """\
import sys
sys.stderr.write("WARNING: Using incubator modules: jdk.incubator.vector\\n")
sys.stderr.write("WARNING: something else\\n" * 10_000)
sys.stdout.write("Error: Could not create the Java Virtual Machine")
"""


def test_all_but_the_noise_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever the process wrote before it failed is there when the failure is raised, and nothing is on stdout."""
    with pytest.raises(subprocess.CalledProcessError), passing_on() as output:
        subprocess.run([sys.executable, "-c", f"{SAYING}sys.exit(1)"], stdout=output, stderr=output, check=True)

    out, err = capfd.readouterr()
    assert out == ""
    assert "incubator" not in err
    assert err.count("WARNING: something else\n") == 10_000
    assert err.endswith("Error: Could not create the Java Virtual Machine")
