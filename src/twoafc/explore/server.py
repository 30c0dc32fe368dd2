"""The server: for this machine and its own page only, with images from one folder; it writes nothing."""

from __future__ import annotations

import io
import socket
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from dash import Dash
from flask import Flask, Response, abort, request
from PIL import Image
from werkzeug.exceptions import HTTPException
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from twoafc.explore.callbacks import connect
from twoafc.explore.data import ROLES, Explored
from twoafc.explore.layout import page
from twoafc.explore.state import View
from twoafc.files import legible
from twoafc.images import FORMATS, decode, eight_bits
from twoafc.results import Pictures, Result

HOST = "127.0.0.1"
HOSTS = (HOST, "localhost")
PORT, TRIED, MOST_PORTS = 8050, 50, 65535
SERVED = ("/_dash-layout", "/_dash-dependencies", "/_dash-update-component", "/_favicon.ico", "/triplets.csv")
BELOW = ("/_dash-component-suites/", "/assets/", "/image/")
"""All that is served, beside the page itself; other doors that Dash may have or get stay shut."""
EVERYTHING = "/<path:path>"
AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif", "BMP": "image/bmp"}
"""Kinds of image that browsers show; others are sent as PNG."""
MOST_PIXELS = 100_000_000
MOST_BYTES = 4 * 2**20
"""Of a request; those of the page have some kilobytes."""
INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}</head>
    <body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>"""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def serve(
    folder: str | Path, *, images: str | Path | None = None, train: str | Path | None = None, port: int | None = None
) -> BaseWSGIServer:
    """Make the server: see `twoafc.explore.explorer`."""
    result = Result.read(folder)
    result.require_triplets("explore")
    pictures = None if images is None else Pictures(Path(images))
    explored = Explored(result, None if train is None else Path(train))
    return listen(application(explored, pictures), port)


def application(explored: Explored, pictures: Pictures | None = None) -> Flask:
    """Make the application that serves a page of results."""
    assets = str(Path(__file__).parent / "assets")
    server = Flask("twoafc.explore", static_folder=None)
    server.config["MAX_CONTENT_LENGTH"] = MOST_BYTES
    # First of all, before Dash does anything for a foreign caller.
    server.before_request(_refuse_strangers)
    app = Dash("twoafc.explore", server=server, title="twoafc explore", update_title="", assets_folder=assets)
    app.index_string = INDEX
    app.layout = page(explored)
    connect(app, explored, images=pictures is not None)
    server.after_request(partial(_protected, scripts=app.csp_hashes()))

    server.register_error_handler(Exception, _not_understood)

    @server.get("/image/<int:row>/<role>")
    def image(row: int, role: str) -> Response:
        if pictures is None or role not in ROLES or role not in explored.labels.columns or row >= len(explored):
            abort(404)
        content = pictures.read(str(explored.labels[role][row]))
        shown = None if content is None else _shown(content)
        return abort(404) if shown is None else Response(shown[0], mimetype=shown[1])

    @server.get("/triplets.csv")
    def export() -> Response:
        view = View.read(request.query_string.decode(errors="replace"), explored.known)
        return Response(explored.frame(view).write_csv(), mimetype="text/csv")

    return server


def _refuse_strangers() -> None:
    """Refuse requests that do not come from this page on this machine, and paths that are not part of it."""
    # A foreign name that leads here (DNS rebinding) would let a foreign page read the answers.
    if _hostname(request.host) not in HOSTS:
        abort(403, f"this page is served as {HOST} or localhost alone")
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.host}":
        abort(403, "this page answers itself alone")
    known = request.path in SERVED or request.path.startswith(BELOW)
    # Dash answers any path that it does not know with the page itself.
    if request.path != "/" and (not known or str(request.url_rule) == EVERYTHING):
        abort(404)


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # a bracket that does not close
        return None


def _not_understood(error: Exception) -> Response | HTTPException:
    """Answer requests that no page of ours sends, on which Dash fails; report failures of our own code."""
    if isinstance(error, HTTPException):
        return error
    through = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    if any(name.startswith("twoafc.") for name in through):
        failed = f"{type(error).__name__}: {error}"
        print(f"twoafc: {legible(f'{request.method} {request.path} failed: {failed}')}", file=sys.stderr)
        return Response(f"this failed; please report it ({failed})", 500, mimetype="text/plain")
    return Response(f"this request is not understood ({type(error).__name__})", 400, mimetype="text/plain")


def _protected(response: Response, *, scripts: Sequence[str]) -> Response:
    """Set headers that let the page use this server only."""
    # Plotly compiles functions that draw points, and sets inline styles.
    policy = {
        "default-src": "'none'",
        "script-src": " ".join(["'self'", "'unsafe-eval'", *scripts]),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self'",
        "worker-src": "blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    response.headers.update(HEADERS)
    response.headers["Content-Security-Policy"] = "; ".join(f"{what} {whence}" for what, whence in policy.items())
    if not request.path.startswith("/_dash-component-suites/"):
        response.headers["Cache-Control"] = "no-store"
    return response


def _shown(content: bytes) -> tuple[bytes, str] | None:
    """Return an image that browsers show, with its type, by its content and not by its name; None for other files."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as found:
            kind = found.format or ""
            if found.width * found.height > MOST_PIXELS:
                return None
            if kind in AS_THEY_ARE:
                found.verify()
                return content, AS_THEY_ARE[kind]
        pixels = eight_bits(decode(content, "image"))
    except Exception:  # damage makes Pillow raise whatever it happens to meet
        return None
    shown = io.BytesIO()
    Image.fromarray(np.moveaxis(pixels, 0, -1)).save(shown, "PNG")
    return shown.getvalue(), "image/png"


class _Quiet(WSGIRequestHandler):
    """Answers without a word in the terminal, and keeps the connection."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing."""

    def version_string(self) -> str:
        """Hide the versions of libraries."""
        return "twoafc"


def listen(application: Flask, port: int | None = None) -> BaseWSGIServer:
    """Listen on this machine alone: at the port given, which must be free, or the first free one from 8050 on."""
    if port is not None and not 1 <= port <= MOST_PORTS:
        raise ValueError(f"a port is a number from 1 to {MOST_PORTS}; found {port}; choose another, or none")
    asked = port or next((each for each in range(PORT, PORT + TRIED) if _free(each)), 0)
    if port and not _free(port):
        raise OSError(f"port {port} is taken; choose another with --port, or none")
    return make_server(HOST, asked, application, threaded=True, request_handler=_Quiet)


def _free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
    return True
