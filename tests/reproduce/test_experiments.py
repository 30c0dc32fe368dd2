"""The distances of the paper, and results that are computed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from twoafc.errors import DataError
from twoafc.reproduce.experiments import OURS, cached, choose_distances
from twoafc.reproduce.printed import HEADINGS


def test_distances_without_weights_are_left_out_unless_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    chosen, notes = choose_distances(None)
    assert [item.name for item in chosen][:3] == ["euclidean", "nlpd", "ssim"]
    assert "PIM (pim_1) is left out: its weights are missing; run: twoafc fetch pim_1" in notes
    assert len(chosen) + len(notes) == 6
    with pytest.raises(DataError, match=r"^the weights pim_1 are needed and not at hand; tried: .*twoafc fetch pim_1$"):
        choose_distances(["ssim", "pim"])


def test_variants_are_assigned_to_their_columns_in_the_paper() -> None:
    chosen, _ = choose_distances(["ssim_luma", "rmse", "nlpd_rgb"])
    assert [(item.heading, item.paper) for item in chosen] == [
        ("SSIM (ssim_luma)", "ssim"),
        ("Euclidean (rmse)", "euclidean"),
        ("NLPD (nlpd_rgb)", "nlpd"),
    ]
    assert all(item.variant for item in chosen)
    assert list(OURS) == list(HEADINGS)


def test_a_cached_result_is_computed_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute() -> dict[str, float]:
        calls.append(1)
        return {"nll": float("inf"), "calls": len(calls)}

    path = tmp_path / "experiments" / "it.json"
    assert cached(path, "k", compute) == {"nll": None, "calls": 1}
    assert cached(path, "k", compute) == {"nll": None, "calls": 1}
    assert cached(path, "another", compute)["calls"] == 2
    path.write_text(path.read_text()[:-9])
    assert cached(path, "another", compute)["calls"] == 3
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    assert cached(path, "another", compute)["calls"] == 4
    assert [file.name for file in path.parent.iterdir()] == ["it.json"]
