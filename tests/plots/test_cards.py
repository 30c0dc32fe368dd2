"""Cards of a triplet, tested by the images, words and bars that they draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from conftest import random_table
from drawing import panel
from twoafc import plots
from twoafc.estimators import Density
from twoafc.results import ask

IMAGES = [np.full((4, 6, 3), grey, dtype=np.uint8) for grey in (10, 20, 30)]


def answer(d0: float = 2.0, d1: float = 1.0, votes: int = 5, observed: int | None = 4) -> dict[str, Any]:
    return ask(Density(sigma=0.1).fit(random_table()), d0, d1, votes=votes, observed=observed)


def bars(ax: Axes) -> list[Rectangle]:
    return list(ax.containers[0])


def words(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_bars_are_the_nll_of_each_count_and_the_observed_one_is_marked() -> None:
    asked = answer()
    ax = plots.counts_nll(asked, panel())
    assert [bar.get_height() for bar in bars(ax)] == [count["nll"] for count in asked["counts"]]
    assert [bool(bar.get_hatch()) for bar in bars(ax)] == [False, False, False, False, True, False]
    assert bars(ax)[4].get_facecolor() != bars(ax)[3].get_facecolor()
    assert words(ax) == [f"{count['nll']:.2f}" for count in asked["counts"]]
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["observed, j = 4"]
    assert ax.get_xlabel() == "j, votes for x1 of 5"


def test_without_an_observed_count_none_is_marked() -> None:
    ax = plots.counts_nll(answer(observed=None), panel())
    assert not any(bar.get_hatch() for bar in bars(ax))
    assert ax.get_legend() is None


def test_of_many_counts_the_observed_alone_bears_its_number() -> None:
    asked = answer(votes=40, observed=31)
    ax = plots.counts_nll(asked, panel())
    assert len(bars(ax)) == 41
    assert words(ax) == [f"{asked['counts'][31]['nll']:.2f}"]


def test_an_impossible_count_has_a_bar_without_end() -> None:
    counts = [{"j": j, "nll": nll, "observed": j == 1} for j, nll in enumerate((float("inf"), 3.0, 0.5))]
    ax = plots.counts_nll({"P": 1.0, "counts": counts}, panel())
    assert words(ax) == ["∞", "3.00", "0.50"]
    assert ax.get_ylim()[1] > bars(ax)[0].get_height() > bars(ax)[1].get_height() == 3.0
    certain = [{"j": j, "nll": nll, "observed": False} for j, nll in enumerate((float("inf"), 0.0))]
    plots.counts_nll({"P": 1.0, "counts": certain}, panel()).figure.draw_without_rendering()


def test_a_card_shows_the_three_images_with_their_distances_and_votes() -> None:
    asked = answer()
    figure = plots.triplet_card(IMAGES, asked, title="triplet $7 of $8")
    x0, ref, x1, nll = figure.axes
    for ax, image in zip((x0, ref, x1), IMAGES, strict=True):
        np.testing.assert_array_equal(np.asarray(ax.images[0].get_array()), image)
    assert [ax.get_title() for ax in (x0, ref, x1)] == ["x0", "reference", "x1"]
    assert x0.get_xlabel() == "d0 = 2\n1 of 5 votes"
    assert x1.get_xlabel() == "d1 = 1\n4 of 5 votes"
    assert ref.get_xlabel() == f"P = {asked['P']:.3f} ± {asked['standard_error']:.3f}"
    assert len(bars(nll)) == 6
    # What most people chose has a heavier frame.
    assert x1.spines["left"].get_linewidth() > x0.spines["left"].get_linewidth()
    figure.draw_without_rendering()


def test_many_votes_are_all_counted() -> None:
    """The answer lists some of the counts only."""
    x0, _, x1, _ = plots.triplet_card(IMAGES, answer(votes=5000, observed=2600)).axes
    assert x0.get_xlabel() == "d0 = 2\n2400 of 5000 votes"
    assert x1.get_xlabel() == "d1 = 1\n2600 of 5000 votes"


def test_the_error_of_another_fit_is_left_out() -> None:
    asked = answer()
    for P_model, shown in ((asked["P"], True), (None, True), (asked["P"] + 0.01, False)):
        text = plots.triplet_card(IMAGES, {**asked, "P_model": P_model}).axes[1].get_xlabel()
        assert text.startswith(f"P = {asked['P']:.3f}")
        assert ("±" in text) == shown


def test_distances_of_the_caller_come_before_those_of_the_answer() -> None:
    figure = plots.triplet_card(IMAGES, answer(observed=None), labels=("left", "middle", "right"), d0=0.25, d1=0.0)
    assert [ax.get_title() for ax in figure.axes[:3]] == ["left", "middle", "right"]
    assert [ax.get_xlabel() for ax in (figure.axes[0], figure.axes[2])] == ["d0 = 0.25", "d1 = 0"]


def test_an_answer_without_distances_or_error_says_what_it_has() -> None:
    asked = {"P": 0.25, "standard_error": None, "counts": answer(observed=None)["counts"]}
    figure = plots.triplet_card(IMAGES, asked)
    assert [ax.get_xlabel() for ax in figure.axes[:3]] == ["", "P = 0.250", ""]


def test_a_missing_image_is_a_box_that_says_so() -> None:
    figure = plots.triplet_card([None, IMAGES[1], None], answer())
    assert [len(ax.images) for ax in figure.axes[:3]] == [0, 1, 0]
    assert [words(ax) for ax in figure.axes[:3]] == [["no image"], [], ["no image"]]
    # It has the shape of an image that is there.
    assert figure.axes[0].get_box_aspect() == 4 / 6
    assert plots.triplet_card([None] * 3, answer()).axes[0].get_box_aspect() == 1


def test_a_card_takes_three_images_of_bytes() -> None:
    with pytest.raises(ValueError, match=r"^a card has three images, x0, the reference and x1; found 2$"):
        plots.triplet_card(IMAGES[:2], answer())
    message = r"^an image must be of uint8 and shape \(H, W, 3\); found float64 and \(4, 6, 3\)$"
    with pytest.raises(ValueError, match=message):
        plots.triplet_card([*IMAGES[:2], np.ones((4, 6, 3))], answer())  # type: ignore[list-item]
    message = r"^an image must be of uint8 and shape \(H, W, 3\); found uint8 and \(4, 6\)$"
    with pytest.raises(ValueError, match=message):
        plots.triplet_card([IMAGES[0][..., 0], *IMAGES[1:]], answer())


def titles(figure: Figure) -> list[str]:
    return [ax.get_title() for ax in figure.axes[3:]]


def test_where_two_distances_disagree_the_one_that_suits_the_votes_is_right() -> None:
    answers = {"good": answer(2.0, 1.0), "bad": answer(1.0, 2.0)}
    figure = plots.disagreement_card(IMAGES, answers, right="good")
    assert titles(figure) == ["good: right", "bad"]
    assert [ax.title.get_weight() for ax in figure.axes[3:]] == ["bold", "normal"]
    one, other = figure.axes[3:]
    assert one.get_ylim() == other.get_ylim()
    assert one.get_xlabel().split("\n")[1] == "d0 = 2, d1 = 1"
    assert other.get_xlabel().split("\n")[1] == "d0 = 1, d1 = 2"
    assert [ax.get_xlabel() for ax in figure.axes[:3]] == ["1 of 5 votes", "", "4 of 5 votes"]


def test_who_was_right_may_be_text_or_left_open() -> None:
    answers = {"good": answer(2.0, 1.0), "bad": answer(1.0, 2.0)}
    assert titles(plots.disagreement_card(IMAGES, answers, right="bad")) == ["good", "bad: right"]
    left_open = plots.disagreement_card(IMAGES, answers, right="", title="triplet 7")
    assert titles(left_open) == ["good", "bad"]
    assert left_open.axes[1].get_xlabel() == "the votes\ndo not decide"


def test_only_a_distance_of_the_card_can_be_right() -> None:
    with pytest.raises(ValueError, match=r"^right must name one of a, b, or be empty; found 'c'$"):
        plots.disagreement_card(IMAGES, {"a": answer(), "b": answer()}, right="c")
