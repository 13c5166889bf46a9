"""`isthmus serve`: the REST API and the console."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isthmus.cli.logs import be_verbose, show_changes
from isthmus.cli.options import ConfigOption, VerboseOption
from isthmus.cli.setup.config import file_of, load_configuration
from isthmus.errors import HostError

if TYPE_CHECKING:
    from isthmus.web.serving import ServeSettings

app = typer.Typer(add_completion=False)

TokensOption = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        envvar="ISTHMUS_TOKENS",
        show_envvar=False,
        help="The file of tokens; else $ISTHMUS_TOKENS, else tokens.json in the user's folder of Isthmus.",
    ),
]
CertificateOption = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="A certificate chain as PEM: serve over TLS.")
]
KeyOption = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key as PEM.")]


@app.command()
def serve(
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8087",
    tokens: TokensOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    rate_limit: Annotated[
        float, typer.Option("--rate-limit", min=0.1, help="Requests a second that each token may send.")
    ] = 50.0,
    path: ConfigOption = None,
    _verbose: VerboseOption = 0,
) -> None:
    """Answer what commands answer over HTTP, and show it at / in a browser, until Ctrl-C (docs/rest.md, console.md).

    Without tokens every user of this host may do everything; other hosts are admitted only with TLS and tokens. Each
    change is logged with its author.
    """
    configuration = load_configuration(path)
    settings = serve_settings(listen, tokens, certificate, key, rate_limit, file=file_of(path))
    from isthmus.web.serving import serve as answer

    be_verbose(1)
    answer(configuration, settings)


def serve_settings(
    listen: str,
    tokens: Path | None,
    certificate: Path | None = None,
    key: Path | None = None,
    requests_per_s: float = 50.0,
    *,
    file: Path | None,
) -> ServeSettings:
    """Return the settings of a server.

    :raises HostError: The extra is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "jinja2", "uvicorn")):
        raise HostError(
            "FastAPI, Jinja2 and uvicorn are not all installed", hint="Install them: pip install 'isthmus[web]'."
        )
    show_changes()
    from isthmus.web.access.tokens import default_tokens_file
    from isthmus.web.serving import ServeSettings

    return ServeSettings(
        listen=listen,
        tokens=tokens or default_tokens_file(),
        certificate=certificate,
        key=key,
        requests_per_s=requests_per_s,
        file=file,
    )
