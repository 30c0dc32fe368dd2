"""Make the pictures of the README and the documentation anew: python docs/pictures.py."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from twoafc import Density, Network, Spline, Triplets, plots, worlds
from twoafc.core import Uniform
from twoafc.demo import run
from twoafc.results import surfaces_of

IMAGES = Path(__file__).parent / "images"


def demo() -> None:
    """What the demonstration fits, the best distance first."""
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder, "demo"), triplets=4000, seed=0)
    fitted = surfaces_of(found.runs, size=61)
    tested = [r for r in found.scores if (r["split"], r["group"]) == ("test", "all") and r["distance"] in fitted]
    ordered = [record["distance"] for record in sorted(tested, key=lambda record: record["nll"])]
    named = {name: fitted[name] for name in ordered}
    plots.save(plots.surfaces(named, across=len(named)), IMAGES / "surfaces.svg", dpi=150)


def estimators() -> None:
    """One world, 3000 triplets of two votes: its true P, and what each estimator makes of them."""
    table = Triplets.from_frame(worlds.simulate("thurstone", triplets=3000, votes=2, seed=1))
    d = Uniform.learn(table.d0, table.d1).inverse(np.linspace(0, 1, 101))
    d0, d1 = d[:, None], d[None, :]
    named = {"truth": worlds.true_probability("thurstone", d0, d1)}
    for name, settings in {
        "density (paper)": Density(),
        "density (auto)": Density(sigma="auto"),
        "network (paper)": Network(),
        "network (lbfgs)": Network(solver="lbfgs"),
        "spline": Spline(),
    }.items():
        named[name] = settings.fit(table).probability(d0, d1)
    plots.save(plots.surfaces(named, across=3), IMAGES / "estimators.svg", dpi=150)


if __name__ == "__main__":
    demo()
    estimators()
