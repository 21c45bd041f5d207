import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from tests.support.images import processor_folder
from turnstile.compiler.errors import NotInstalled, UnusableFolder
from turnstile.compiler.images.processor import ImageProcessor, Tensors

RED = Pillow.new("RGB", (100, 60), "red")


def of_kind(folder: Path, kind: str, **of_the_whole: object) -> ImageProcessor:
    """A processor with its usual settings, and those of the whole processor beside it."""
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": kind}))
    (folder / "processor_config.json").write_text(json.dumps(of_the_whole))
    return ImageProcessor(folder)


def counted(processor: ImageProcessor, image: Pillow.Image = RED) -> int | None:
    return processor.token_count(processor.tensors(image))


def test_tensors_are_the_processors_own(tmp_path: Path) -> None:
    from transformers import AutoImageProcessor

    processor_folder(tmp_path)
    expected = AutoImageProcessor.from_pretrained(str(tmp_path))(images=[RED], return_tensors="np")
    found = ImageProcessor(tmp_path).tensors(RED)
    assert sorted(found) == sorted(expected)
    for name, tensor in found.items():
        assert np.array_equal(tensor, expected[name])
        assert tensor.dtype == expected[name].dtype


def test_a_result_says_what_made_it(tmp_path: Path) -> None:
    identity = ImageProcessor(processor_folder(tmp_path)).identity
    assert identity["class"].startswith("Qwen2VLImageProcessor")
    assert identity["backend"] in ("pil", "torchvision")
    assert identity["versions"]["transformers"] == version("transformers")
    assert identity != ImageProcessor(processor_folder(tmp_path, patch_size=14)).identity


def test_the_grid_gives_the_number_of_tokens(tmp_path: Path) -> None:
    assert counted(ImageProcessor(processor_folder(tmp_path, patch_size=16))) == 3 * 2
    assert counted(ImageProcessor(processor_folder(tmp_path, patch_size=14))) == 4 * 2


def test_families_without_a_grid_have_their_own_ways(tmp_path: Path) -> None:
    assert counted(of_kind(tmp_path, "Gemma3ImageProcessor", image_seq_length=256)) == 256
    pixtral = of_kind(tmp_path, "PixtralImageProcessor", patch_size=16)
    assert counted(pixtral) == 7 * 4 + 3
    llava = of_kind(
        tmp_path,
        "CLIPImageProcessor",
        patch_size=14,
        num_additional_image_tokens=1,
        vision_feature_select_strategy="default",
    )
    assert counted(llava) == 16 * 16


def test_where_nothing_tells_the_number_it_is_unknown(tmp_path: Path) -> None:
    assert counted(of_kind(tmp_path, "CLIPImageProcessor")) is None


def test_tensors_that_are_no_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor = ImageProcessor(processor_folder(tmp_path))

    def ragged(**_: object) -> dict[str, object]:
        return {"names": ["a"]}

    monkeypatch.setattr(processor, "_processor", ragged)
    with pytest.raises(ValueError, match="names is no array of numbers"):
        processor.tensors(RED)


def test_a_folder_without_a_processor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFolder, match="holds no image processor"):
        ImageProcessor(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("{}")
    with pytest.raises(UnusableFolder, match="transformers makes no image processor of it"):
        ImageProcessor(tmp_path)


def test_without_transformers_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(NotInstalled, match=r"transformers: install .* extra images"):
        ImageProcessor(processor_folder(tmp_path))


def test_importing_the_compiler_does_not_import_transformers() -> None:
    import subprocess

    script = "import sys, turnstile.compiler.pipeline; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_a_tensor_of_any_rank_has_a_place(tmp_path: Path) -> None:
    tensors: Tensors = ImageProcessor(processor_folder(tmp_path)).tensors(RED)
    assert tensors["image_grid_thw"].tolist() == [[1, 4, 6]]
