"""The server of the explorer: it answers only its own page on this machine, reads one image folder and writes nothing.

The page is plain HTML, one style sheet and six scripts of our own, with no plotting library: these need WebGL and
compiled scripts, and have buttons that upload. A canvas draws 36,000 points in a few hundredths of a second.
"""

from __future__ import annotations

import io
import math
import socket
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from flask import Flask, Response, abort, request
from PIL import Image
from werkzeug.exceptions import HTTPException
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from twoafc.arrays import BoolArray
from twoafc.explore.data import GRIDS, REFIT, SIGMAS, Explored, Fitted, packed
from twoafc.files import legible, strict_json
from twoafc.images import FORMATS, decode, eight_bits
from twoafc.results import IMAGES, REPORT, Pictures

HOST = "127.0.0.1"
HOSTS = (HOST, "localhost")
PORT, TRIED, MOST_PORTS = 8050, 50, 65535
AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif", "BMP": "image/bmp"}
"""Image formats that browsers show; others are sent as PNG."""
MOST_PIXELS = 100_000_000
MOST_BYTES = 4 * 2**20
"""Largest request; those of the page have some kilobytes."""
THUMBNAIL, THUMBNAILS = 320, 2048
"""Longest side of a thumbnail in pixels, and how many of them are kept in memory."""
NAMED = 5
"""Missing images that are named."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The report has its style and its pictures inside, and no script."""


def application(explored: Explored, pictures: Pictures | None = None) -> Flask:
    """Make the application that serves a page of results."""
    server = Flask("twoafc.explore", static_folder="assets")
    server.config["MAX_CONTENT_LENGTH"] = MOST_BYTES
    server.before_request(_refuse_strangers)
    server.after_request(_protected)
    server.register_error_handler(Exception, _failed)
    _serve_pages(server, explored.result.folder)
    _serve_data(server, explored, images=pictures is not None)
    if pictures is not None:
        _serve_images(server, explored, pictures)
    return server


def _serve_pages(server: Flask, folder: Path | None) -> None:
    """Serve the page of the explorer, and the report of the folder."""

    @server.get("/")
    def page() -> Response:
        return Response((Path(__file__).parent / "assets" / "page.html").read_bytes(), mimetype="text/html")

    @server.get("/report.html")
    def report() -> Response:
        path = None if folder is None else folder / REPORT
        if path is None or not path.is_file():
            abort(404)
        # The report that lies on disk names the usual address of the explorer; here it is this one.
        text = path.read_text(encoding="utf-8").replace(f'href="http://{HOST}:{PORT}/"', 'href="/"')
        return Response(text, mimetype="text/html", headers={"Content-Security-Policy": REPORT_POLICY})


def _serve_data(server: Flask, explored: Explored, *, images: bool) -> None:
    """Serve what the page draws and lists."""

    @server.get("/about.json")
    def about() -> Response:
        return _json(explored.about(images=images))

    @server.get("/points")
    def points() -> Response:
        tested = explored.points(_fitted(explored, request.args.get("distance", "")))
        return Response(packed(tested.arrays()), mimetype="application/octet-stream")

    @server.get("/row/<int:row>")
    def row(row: int) -> Response:
        if row >= len(explored):
            abort(404)
        names = request.args.getlist("distance") or explored.distances
        return _json(explored.answers(row, {name: _fitted(explored, name) for name in names}))

    @server.post("/compare")
    def compare() -> Response:
        one, other = (_fitted(explored, request.args.get(name, "")) for name in ("distance", "other"))
        if one.distance == other.distance:
            abort(400, "two distances are needed to compare")
        return _json(explored.compared(one, other, _mask(request.get_data(), len(explored))))


def _serve_images(server: Flask, explored: Explored, pictures: Pictures) -> None:
    """Serve the images that the rows name, and which of them are missing."""
    roles = [role for role in IMAGES if role in explored.labels.columns]
    small = lru_cache(THUMBNAILS)(lambda name: _small(pictures.read(name)))

    @server.get("/image/<int:row>/<role>")
    def image(row: int, role: str) -> Response:
        if role not in roles or row >= len(explored):
            abort(404)
        name = str(explored.labels[role][row])
        shown = small(name) if "small" in request.args else _shown(pictures.read(name))
        return abort(404) if shown is None else Response(shown[0], mimetype=shown[1])

    @server.get("/missing.json")
    def missing() -> Response:
        names = sorted({name for role in roles for name in explored.labels[role].drop_nulls().to_list() if name})
        gone = pictures.missing(names)
        return _json({"images": len(names), "missing": len(gone), "names": gone[:NAMED]})


def _json(value: Any) -> Response:
    return Response(strict_json(value), mimetype="application/json")


def _fitted(explored: Explored, distance: str) -> Fitted:
    """Return the fit of a distance that the request asks for; a refit has its settings there, too."""
    estimator = request.args.get("estimator", explored.estimators[0])
    if distance not in explored.distances or estimator not in explored.estimators:
        abort(404, "no such distance or estimator")
    if estimator != REFIT:
        return Fitted(distance, estimator)
    sigma, grid = request.args.get("sigma", math.nan, float), request.args.get("grid", 0, int)
    if not (SIGMAS[0] <= sigma <= SIGMAS[1] and GRIDS[0] <= grid <= GRIDS[1]):
        abort(400, f"sigma must lie in {SIGMAS}, grid in {GRIDS}")
    return Fitted(distance, estimator, sigma, grid)


def _mask(content: bytes, rows: int) -> BoolArray:
    """Read a mask of rows, one bit each, the first row first."""
    bits = np.unpackbits(np.frombuffer(content, dtype=np.uint8), bitorder="little")
    if len(bits) != -(-rows // 8) * 8:
        abort(400, f"rows must have {rows} bits")
    return bits[:rows].astype(bool)


def _refuse_strangers() -> None:
    """Refuse requests that do not come from this page on this machine."""
    try:
        name = urlsplit(f"//{request.host}").hostname
    except ValueError:  # a bracket that does not close
        name = None
    # A foreign name that leads here (DNS rebinding) would let a foreign page read the answers.
    if name not in HOSTS:
        abort(403, f"this page is served only as {HOST} or localhost")
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.host}":
        abort(403, "requests from other pages are refused")


def _failed(error: Exception) -> Response | HTTPException:
    """Answer a bad request in one line, and report our own failures."""
    if isinstance(error, HTTPException):
        return Response(f"{error.description}\n", error.code, mimetype="text/plain")
    failed = f"{type(error).__name__}: {error}"
    print(f"twoafc: {legible(f'{request.method} {request.path} failed: {failed}')}", file=sys.stderr)
    return Response(f"internal error; please report it ({failed})\n", 500, mimetype="text/plain")


def _protected(response: Response) -> Response:
    """Set headers that let the page use this server only."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Content-Security-Policy", POLICY)
    return response


def _shown(content: bytes | None) -> tuple[bytes, str] | None:
    """Return an image that browsers show, with its type, by its content and not by its name; None for other files."""
    try:
        with Image.open(io.BytesIO(content or b""), formats=FORMATS) as opened:
            kind = opened.format or ""
            if opened.width * opened.height > MOST_PIXELS:
                return None
            if kind in AS_THEY_ARE:
                opened.verify()
                return content or b"", AS_THEY_ARE[kind]
        pixels = eight_bits(decode(content or b"", "image"))
        return _encoded(Image.fromarray(np.moveaxis(pixels, 0, -1)), "PNG")
    except Exception:  # Pillow raises all kinds of errors on damaged files
        return None


def _small(content: bytes | None) -> tuple[bytes, str] | None:
    """Return a small copy of a large image, and a small image as it is."""
    shown = _shown(content)
    if shown is None:
        return None
    try:
        with Image.open(io.BytesIO(shown[0]), formats=FORMATS) as opened:
            if max(opened.size) <= THUMBNAIL:
                return shown
            opened.draft("RGB", (THUMBNAIL, THUMBNAIL))
            image = opened.convert("RGB")
        image.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.BICUBIC)
        return _encoded(image, "JPEG")
    except Exception:  # the file is cut short
        return None


def _encoded(image: Image.Image, kind: str) -> tuple[bytes, str]:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue(), AS_THEY_ARE[kind]


class _Quiet(WSGIRequestHandler):
    """Prints nothing to the terminal, and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing."""

    def version_string(self) -> str:
        """Hide the versions of libraries."""
        return "twoafc"


def listen(application: Flask, port: int | None = None) -> BaseWSGIServer:
    """Listen on this machine only, at the given port, which must be free, or the first free one from 8050 on."""
    if port is not None and not 1 <= port <= MOST_PORTS:
        raise ValueError(f"a port must be a number from 1 to {MOST_PORTS}; found {port}; choose another, or none")
    asked = port or next((candidate for candidate in range(PORT, PORT + TRIED) if _free(candidate)), 0)
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
