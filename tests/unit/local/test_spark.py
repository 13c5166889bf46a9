"""Which Spark is used where there are several, one, or none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.errors import SparkMissing
from isthmus.local.spark import find_spark
from testing.patience import TERM_S

ROOT = Path(__file__).parents[3]


def _pyspark(folder: Path, version: str) -> Path:
    package = folder / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "version.py").write_text(f"__version__: str = {version!r}\n")
    return folder


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that has heard of no Spark."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    return monkeypatch


@pytest.fixture
def installed(alone: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """Installs a pyspark of some version."""

    def install(version: str) -> Path:
        folder = _pyspark(tmp_path / "site-packages", version)
        alone.setattr(sys, "path", [str(folder)])
        return folder / "pyspark"

    return install


@pytest.fixture
def home(alone: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """Unpacks a Spark of some version, and names it in SPARK_HOME."""

    def unpack(version: str) -> Path:
        python = _pyspark(tmp_path / "spark" / "python", version)
        (python / "lib").mkdir()
        (python / "lib" / "py4j-0.10.9.7-src.zip").touch()
        alone.setenv("SPARK_HOME", str(python.parent))
        return python.parent

    return unpack


def test_the_installed_one_is_used(installed: Callable[[str], Path]) -> None:
    """With the Spark that it carries."""
    package = installed("4.1.2")
    assert (find_spark().version, find_spark().home) == ("4.1.2", package)


def test_without_one_that_of_spark_home_is_used(home: Callable[[str], Path]) -> None:
    """It and the bridge that lies beside it can be imported afterwards."""
    folder = home("3.5.9")
    assert (find_spark().version, find_spark().home) == ("3.5.9", folder)
    assert sys.path == [str(folder / "python"), str(folder / "python/lib/py4j-0.10.9.7-src.zip")]


@pytest.mark.usefixtures("alone")
def test_without_any_it_is_said_how_to_get_one() -> None:
    """Also where SPARK_HOME names something else."""
    with pytest.raises(SparkMissing, match="neither pyspark nor SPARK_HOME") as missing:
        find_spark()
    assert "pip install 'isthmus[spark]'" in missing.value.hint


@pytest.mark.parametrize("version", ["3.4.4", "5.0.0"])
def test_other_versions_are_refused(version: str, installed: Callable[[str], Path]) -> None:
    """Before anything is started."""
    installed(version)
    with pytest.raises(SparkMissing, match=version):
        find_spark()


def test_two_of_different_versions_are_refused(installed: Callable[[str], Path], home: Callable[[str], Path]) -> None:
    """The package would start the JVM of SPARK_HOME, which does not understand it."""
    installed("4.3.0")
    home("3.5.9")
    with pytest.raises(SparkMissing, match=r"pyspark 4.3.0 would start the Spark 3.5.9") as refused:
        find_spark()
    assert "pyspark==3.5.9" in refused.value.hint


# As in an environment that has no pyspark.
WITHOUT = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
import isthmus.fabric.fabric, isthmus.interop, isthmus.web.app
from isthmus.cli.app import main
sys.argv[1:] = ["-b", "east=127.0.0.1:9", "-b", "west=127.0.0.1:9", "run"]
main()
"""


def test_all_but_runs_and_verification_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run says so before it looks at a cluster."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    tried = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=TERM_S, check=False)
    assert tried.returncode == SparkMissing.exit_code, tried.stderr
    assert "ISTH-SPARK" in tried.stderr
