"""The wheel in an environment of its own, with what its metadata says it needs and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import httpx2
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from testing.patience import TERM_S
from testing.values.standing import free_port

ROOT = Path(__file__).parents[2]
EXTRA = "web"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout's source archive, which thereby is proven to be whole."""
    folder = tmp_path_factory.mktemp("wheel")

    def build(kind: str, source: Path) -> None:
        command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
        subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=TERM_S)

    build("sdist", ROOT)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    build("wheel", folder / archive.name.removesuffix(".tar.gz"))
    (found,) = folder.glob("*.whl")
    return found


def described(wheel: Path) -> Message:
    """The metadata in a wheel."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def needed(written: Iterable[str], extras: Iterable[str]) -> Iterator[Requirement]:
    """Those of some requirements that count here, with these extras."""
    for text in written:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def closure(requirements: Iterable[Requirement]) -> dict[str, metadata.Distribution]:
    """The distributions of this environment that some requirements come to, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(requirements)
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        found[name] = metadata.distribution(name)
        waiting += needed(found[name].requires or (), requirement.extras)
    return found


def test_the_wheel_holds_all_there_is(wheel: Path) -> None:
    """Every file beside the modules travels with them, by way of the source archive too, the pages that `isthmus help`
    shows, and nothing else.
    """
    held = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", "src", "docs"], cwd=ROOT, check=True, capture_output=True, text=True)
    found = {name.removeprefix("src/") for name in tracked.stdout.splitlines()}
    assert held == {f"isthmus/{name}" if name.startswith("docs/") else name for name in found}


@pytest.mark.parametrize("extra", ["keyring", "schemas", "spark", "terminal", "web", "zookeeper"])
@pytest.mark.parametrize("pins", ["dev.txt", "run.txt"])
def test_what_the_wheel_needs_is_pinned(wheel: Path, extra: str, pins: str) -> None:
    """Each requirement has a version in the files of requirements/, and one that it allows."""
    lines = (ROOT / "requirements" / pins).read_text().splitlines()
    pinned = dict(line.split(" ")[0].split("==") for line in lines if "==" in line and line[0].isalnum())
    written = list(needed(described(wheel).get_all("Requires-Dist", ()), (extra,)))
    assert len(written) > 10
    for requirement in written:
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_pip_finds_what_the_wheel_needs(wheel: Path, tmp_path: Path) -> None:
    """Installed with `web` by pip into an environment with nothing in it, from the registry that pip is set to: what is
    newest there of all that the metadata allows goes together, and the command and the server work.
    """
    home = tmp_path / "env"
    venv.create(home)
    install = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*install, f"{wheel}[{EXTRA}]"], check=True, timeout=10 * TERM_S)
    runs_and_serves(home, wheel, tmp_path)


def test_it_runs_and_serves_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """Installed with `web` by pip into an environment that has what the metadata names and what that needs in turn,
    in the versions that are pinned here: the command and the server work, without the checkout.
    """
    home = tmp_path / "env"
    venv.create(home)
    (packages,) = home.glob("lib/python*/site-packages")
    written = described(wheel).get_all("Requires-Dist", ())
    for distribution in closure(needed(written, (EXTRA,))).values():
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            there = Path(str(distribution.locate_file(top)))
            if not (packages / top).exists():
                (packages / top).symlink_to(there)
    install = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*install, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True, timeout=TERM_S)
    assert not (packages / "pyspark").exists()
    runs_and_serves(home, wheel, tmp_path)


def runs_and_serves(home: Path, wheel: Path, tmp_path: Path) -> None:
    """The command tells its version, and the server its API and the console's pages."""
    (tmp_path / "isthmus.yaml").write_text('clusters: {east: {bootstrap_servers: "127.0.0.1:1"}}\n')
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = str(home / "bin" / "isthmus")
    told = subprocess.run(
        [command, "--version"], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert told.stdout == f"isthmus {described(wheel)['Version']}\n"

    address = f"127.0.0.1:{free_port()}"
    serve = [command, "serve", "--listen", address, "--tokens", str(tmp_path / "tokens.json")]
    with subprocess.Popen(serve, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            said = ""
            # Lines of a log are broken where a screen ends.
            while f"serving at http://{address}/v1" not in " ".join(said.split()):
                line = server.stderr.readline()
                assert line, f"it ended: {said}"
                said += line
            described_api = httpx2.get(f"http://{address}/v1/openapi.json", timeout=TERM_S).json()
            assert described_api["info"]["version"] == told.stdout.split()[1]
            page = httpx2.get(f"http://{address}/", timeout=TERM_S, follow_redirects=True)
            assert page.status_code == 200
            assert page.headers["content-type"].startswith("text/html")
        finally:
            server.terminate()
