"""Weights: the order of the search, and that nothing but the published tensors is ever taken."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from twoafc.distances import Published, published, weights
from twoafc.distances.weights import archive, tensors
from twoafc.errors import DataError

torch = pytest.importorskip("torch")

WANTED = "wanted: toy-1234.pth, 99 bytes, sha256 1234, from https://example.org/toy-1234.pth; run: twoafc fetch toy"
ZIP_WANTED = "wanted: toy.zip, {digest}, from https://example.org/toy.zip; run: twoafc fetch toy_zip"


def toy() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "features.0.weight": torch.rand(4, 3, 2, 2, generator=generator),
        "features.0.bias": torch.rand(4, generator=generator),
    }


@pytest.fixture(autouse=True)
def places(monkeypatch, tmp_path):
    """A toy among the published weights, and no other places to look in than folders of this test."""
    hashes = {name: hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for name, tensor in toy().items()}
    shapes = {name: (tuple(tensor.shape), hashes[name]) for name, tensor in toy().items()}
    url = "https://example.org/"
    packages = (("toy_package", "inside/toy.pth"),)
    digest = f"sha512 {hashlib.sha512(b'PK zip').hexdigest()}"
    table = {
        "toy": Published("toy", "toy-1234.pth", f"{url}toy-1234.pth", 99, "sha256 1234", packages, shapes),
        "toy_zip": Published("toy_zip", "toy.zip", f"{url}toy.zip", None, digest, (), {}),
    }
    monkeypatch.setattr(weights, "published", lambda: table)
    for variable, folder in (("TWOAFC_WEIGHTS", "given"), ("TORCH_HOME", "torch")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    (tmp_path / "given").mkdir()
    (tmp_path / "torch" / "hub" / "checkpoints").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "site").mkdir()
    return tmp_path


def refusal(path=None) -> str:
    with pytest.raises(DataError) as caught:
        tensors("toy", path)
    message = str(caught.value)
    assert message.startswith("the weights toy are needed and not at hand; tried: ")
    assert message.endswith(f"; {WANTED}")
    return message.removeprefix("the weights toy are needed and not at hand; tried: ").removesuffix(f"; {WANTED}")


def assert_toy(found) -> None:
    assert found.keys() == toy().keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in toy().items())


def test_a_missing_file_says_what_was_tried_and_what_is_wanted(places, monkeypatch):
    cached = places / "torch" / "hub" / "checkpoints" / "toy-1234.pth"
    tried = f"{cached} (no such file), package toy_package (not installed)"
    assert refusal() == f"{places / 'given'} (an empty folder), {tried}"
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(places / "nowhere"))
    assert refusal() == f"{places / 'nowhere'} (No such file or directory), {tried}"
    monkeypatch.delenv("TWOAFC_WEIGHTS")
    assert refusal() == f"TWOAFC_WEIGHTS (not set), {tried}"


def test_any_file_name_will_do_in_the_given_folder(places):
    (places / "given" / "notes.md").write_text("no weights")
    torch.save({"lin0.model.1.weight": torch.zeros(1, 4, 1, 1)}, places / "given" / "a.pth")
    torch.save(toy() | {"classifier.weight": torch.zeros(9, 9)}, places / "given" / "z.bin")
    assert_toy(tensors("toy"))


def test_the_old_format_of_torch_is_read(places):
    torch.save(toy(), places / "given" / "old.pth", _use_new_zipfile_serialization=False)
    assert_toy(tensors("toy"))


def test_the_cache_of_torch_hub(places, monkeypatch):
    torch.save(toy(), places / "torch" / "hub" / "checkpoints" / "toy-1234.pth")
    assert_toy(tensors("toy"))
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "cache"))
    assert weights.cache_folder() == places / "cache" / "torch" / "hub" / "checkpoints"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert weights.cache_folder() == Path("~/.cache/torch/hub/checkpoints").expanduser()


def test_an_imported_excerpt_is_found_in_the_cache(places):
    cache = places / "torch" / "hub" / "checkpoints"
    torch.save(toy(), cache / "twoafc-toy.pth")
    assert_toy(tensors("toy"))
    torch.save({}, cache / "toy-1234.pth")
    assert_toy(tensors("toy"))
    torch.save({}, cache / "twoafc-toy.pth")
    assert f"{cache} (2 files without it)" in refusal()


def test_a_partial_download_is_not_read(places):
    torch.save(toy(), places / "given" / ".toy-1234.pth.part")
    assert refusal().startswith(f"{places / 'given'} (an empty folder), ")


def test_a_folder_below_the_home_folder(places, monkeypatch):
    torch.save(toy(), places / "given" / "toy.pth")
    monkeypatch.setenv("HOME", str(places))
    monkeypatch.setenv("TWOAFC_WEIGHTS", "~/given")
    assert_toy(tensors("toy"))


def test_a_package_is_searched_without_being_imported(places):
    package = places / "site" / "toy_package"
    (package / "inside").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    assert refusal().endswith("package toy_package (no file)")
    torch.save(toy(), package / "inside" / "toy.pth")
    assert_toy(tensors("toy"))


def test_a_file_in_the_environment_of_an_installed_package(places, monkeypatch):
    (places / "site" / "toy_package").mkdir()
    (places / "site" / "toy_package" / "__init__.py").touch()
    monkeypatch.setattr(sys, "prefix", str(places))
    torch.save(toy(), places / "toy.pth")
    assert_toy(tensors("toy"))


def test_a_path_is_the_only_place(places):
    torch.save(toy(), places / "given" / "good.pth")
    torch.save({}, places / "other.pth")
    assert refusal(places / "other.pth") == f"{places / 'other.pth'} (has other tensors)"
    assert refusal(str(places / "nowhere")) == f"{places / 'nowhere'} (No such file or directory)"
    assert_toy(tensors("toy", places / "given" / "good.pth"))
    assert_toy(tensors("toy", [places / "other.pth", places / "given"]))


@pytest.mark.parametrize("name", list(toy()))
def test_one_wrong_bit_is_refused(places, name):
    wrong = toy()
    bits = wrong[name].flatten().view(torch.int32)
    bits[-1] ^= 1
    torch.save(wrong, places / "given" / "toy.pth")
    assert refusal().startswith(f"{places / 'given' / 'toy.pth'} (its {name} is not the published one), ")


def test_the_same_numbers_in_another_type_or_shape_are_refused(places):
    doubles = {name: tensor.double() for name, tensor in toy().items()}
    torch.save(doubles, places / "a.pth")
    assert refusal(places / "a.pth") == f"{places / 'a.pth'} (its features.0.weight is not the published one)"
    turned = toy() | {"features.0.weight": toy()["features.0.weight"].reshape(3, 4, 2, 2)}
    for wrong in (turned, toy() | {"features.0.bias": 4}, toy() | {"features.0.bias": torch.rand(4).to_sparse()}):
        torch.save(wrong, places / "b.pth")
        assert refusal(places / "b.pth") == f"{places / 'b.pth'} (has tensors of other shapes)"


def test_parameters_and_views_in_another_order_are_read(places):
    turned = {name: torch.nn.Parameter(tensor) for name, tensor in toy().items()}
    turned["features.0.weight"] = toy()["features.0.weight"].contiguous(memory_format=torch.channels_last)
    torch.save(turned, places / "given" / "turned.pth")
    assert_toy(tensors("toy"))


@pytest.mark.parametrize("new", [True, False])
def test_a_truncated_file_is_refused(places, new):
    file = places / "cut.pth"
    torch.save(toy(), file, _use_new_zipfile_serialization=new)
    file.write_bytes(file.read_bytes()[:-100])
    assert re.fullmatch(re.escape(f"{file} (torch cannot read it: ") + r"[^\n]+\)", refusal(file))


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('code from a file of weights was run')",)


def test_a_file_with_code_in_it_is_refused(places):
    file = places / "bomb.pth"
    torch.save(toy() | {"features.0.bias": Bomb()}, file)
    assert refusal(file).startswith(f"{file} (torch cannot read it: Weights only load failed")


def test_files_that_are_not_of_torch_are_refused(places):
    (places / "text.pth").write_text("<html>404</html>")
    assert refusal(places / "text.pth") == f"{places / 'text.pth'} (not a file of torch's)"
    with zipfile.ZipFile(places / "other.zip", "w") as archive:
        archive.writestr("pim-1/config.json", "{}")
    assert refusal(places / "other.zip") == f"{places / 'other.zip'} (not a file of torch's)"
    torch.save([1, 2], places / "list.pth")
    assert refusal(places / "list.pth") == f"{places / 'list.pth'} (has other tensors)"


def test_a_file_that_cannot_be_opened_is_reported(places, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    torch.save(toy(), places / "toy.pth")
    monkeypatch.setattr(weights, "read_tensors", denied)
    assert refusal(places / "toy.pth") == f"{places / 'toy.pth'} (Permission denied)"


def test_a_wrong_file_does_not_hide_a_right_one(places):
    torch.save({name: tensor + 1 for name, tensor in toy().items()}, places / "given" / "toy-1234.pth")
    torch.save(toy(), places / "torch" / "hub" / "checkpoints" / "toy-1234.pth")
    assert_toy(tensors("toy"))


def test_unrelated_files_are_counted(places):
    for number in range(3):
        torch.save({}, places / "given" / f"{number}.pth")
    with zipfile.ZipFile(places / "given" / "photographs.zip", "w") as archive:
        archive.writestr("a.png", "")
    assert refusal().startswith(f"{places / 'given'} (4 files without it), ")


def test_archives_are_recognised_by_their_digest(places):
    wanted = weights.published()["toy_zip"]
    cached = places / "torch" / "hub" / "checkpoints" / "toy.zip"
    for folder, name in (("given", "any.bin"), ("torch/hub/checkpoints", "toy.zip")):
        (places / folder / name).write_bytes(b"PK zip")
        assert archive("toy_zip") == b"PK zip"
        (places / folder / name).unlink()
    (places / "given" / "toy.zip").write_bytes(b"PK zap")
    with pytest.raises(DataError) as caught:
        archive("toy_zip")
    assert str(caught.value) == (
        f"the weights toy_zip are needed and not at hand; tried: {places / 'given' / 'toy.zip'} "
        f"(its sha512 is not the published one), {cached} (no such file); {ZIP_WANTED.format(digest=wanted.digest)}"
    )


def test_no_huge_file_is_read_in_search_of_an_archive(places, monkeypatch):
    monkeypatch.setattr(weights, "LARGEST_ARCHIVE", 4)
    (places / "given" / "toy.zip").write_bytes(b"PK zip")
    with pytest.raises(DataError, match=r"toy\.zip \(too large\)"):
        archive("toy_zip")


def test_files_that_are_not_archives_are_refused(places):
    (places / "toy.zip").write_text("<html>404</html>")
    with pytest.raises(DataError, match=r"toy\.zip \(not an archive\)"):
        archive("toy_zip", places / "toy.zip")


def test_the_table_is_that_of_the_golden_data(shared):
    expected = json.loads((shared / "golden" / "weights_expected.json").read_text())
    ours = [row.tensors for row in published().values() if row.tensors]
    assert len(ours) == len(expected)
    for row in expected.values():
        hashes = row["tensor_sha256"]
        assert {name: (tuple(shape), hashes[name]) for name, (shape, _) in row["tensors"].items()} in ours
    archives = json.loads((shared / "golden" / "pim_params.json").read_text())["official"]["sha512_of_zip"]
    for name, digest in archives.items():
        assert published()[name.replace("-", "_")].digest == f"sha512 {digest}"


def test_digest_does_not_depend_on_the_byte_order():
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    assert weights.digest(values) == weights.digest(values.astype(">f4")) == hashlib.sha256(values.data).hexdigest()
