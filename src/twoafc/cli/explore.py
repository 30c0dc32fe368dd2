"""`twoafc explore`: a folder of results in the browser."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path


def explore(
    results: Path,
    *,
    images: Path | None = None,
    train: Path | None = None,
    port: int | None = None,
    browser: bool = False,
) -> None:
    """Explore results in the browser: surfaces, triplets and their images, fits with other settings; writes nothing.

    Parameters
    ----------
    results
        A folder that twoafc evaluate has written.
    images
        Folder of the images, found by the names in the table; nothing outside it is read.
    train
        The training table, for fits with other settings, where it is not in or beside the results.
    port
        Port on 127.0.0.1; by default the first free one from 8050 on.
    browser
        Open the page in the browser.
    """
    from twoafc.explore import explorer

    server = explorer(results, images=images, train=train, port=port)
    address = f"http://{server.host}:{server.port}/"
    with suppress(KeyboardInterrupt), warnings.catch_warnings():  # which is how it ends
        warnings.simplefilter("ignore")  # of Pillow, on images that it reads all the same
        print(f"Explore {results} at {address} (this machine only; press Ctrl-C to stop)", flush=True)
        if browser:
            import webbrowser

            webbrowser.open(address)
        server.serve_forever()
    print("ended")
