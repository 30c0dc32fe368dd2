"""How to cite a result: the method's paper, and the program with its version."""

from __future__ import annotations

AUTHORS = "Hepburn, Alexander and Santos-Rodriguez, Raul and Portilla, Javier"
TITLE = "Evaluating Perceptual Distance Models by Fitting Binomial Distributions to Two-Alternative Forced Choice Data"


def bibtex(version: str) -> str:
    """Give both entries as BibTeX.

    Examples
    --------
    >>> print(bibtex("0.1.0").splitlines()[-4])
      title   = {twoafc: perceptual distances scored on two-alternative forced-choice votes},
    """
    return "\n".join(
        [
            "@article{hepburn2024evaluating,",
            f"  author  = {{{AUTHORS}}},",
            f"  title   = {{{TITLE}}},",
            "  journal = {arXiv:2403.10390},",
            "  year    = {2024}",
            "}",
            "",
            "@software{twoafc,",
            "  author  = {{The twoafc developers}},",
            "  title   = {twoafc: perceptual distances scored on two-alternative forced-choice votes},",
            f"  version = {{{version}}},",
            "  note    = {Python package}",
            "}",
        ]
    )
