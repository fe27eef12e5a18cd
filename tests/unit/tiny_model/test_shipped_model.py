"""The checkpoint in the repository and its training data."""

from __future__ import annotations

import importlib.util
import json
import random
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from epd_local.pictures import UNSEEN

TINY_MODEL = Path(__file__).resolve().parents[3] / "e2e" / "tiny_model"
SHIPPED = TINY_MODEL / "models" / "epd-tiny-vl"


@pytest.fixture(scope="module")
def lessons() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tiny_model_lessons", TINY_MODEL / "lessons.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def shipped(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((SHIPPED / name).read_text())
    return content


def test_the_shipped_files_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in SHIPPED.iterdir()}
    assert sizes["model.safetensors"] <= 15_000_000
    assert sum(sizes.values()) <= 16_000_000


def test_the_weights_have_the_type_that_the_configuration_names() -> None:
    with (SHIPPED / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    assert {tensor["dtype"] for tensor in header.values()} == {"F16"}
    assert shipped("config.json")["dtype"] == "float16"


def test_the_vision_encoder_has_deepstack_layers() -> None:
    vision = shipped("config.json")["vision_config"]
    assert vision["deepstack_visual_indexes"]
    assert max(vision["deepstack_visual_indexes"]) < vision["depth"]


@pytest.mark.parametrize("name", ["preprocessor_config.json", "video_preprocessor_config.json"])
def test_no_picture_uses_more_than_sixteen_tokens(name: str) -> None:
    processor = shipped(name)
    pixels_a_token = (processor["patch_size"] * processor["merge_size"]) ** 2
    assert processor["size"]["longest_edge"] // pixels_a_token == 16


def test_training_never_uses_a_picture_that_counts_as_unseen(lessons: ModuleType) -> None:
    chance = random.Random(1)
    drawn = [lessons.lesson(chance, text_only=False) for _ in range(500)]
    assert all(0 <= each.picture.seed < UNSEEN for each in drawn)
    assert all(each.answer == each.picture.answer for each in drawn)


def test_a_text_without_a_picture_always_has_an_answer(lessons: ModuleType) -> None:
    chance = random.Random(1)
    taught = [lessons.lesson(chance, text_only=True) for _ in range(500)]
    assert all(each.picture is None and each.answer for each in taught)
    assert {each.answer for each in taught} == {*lessons.SMALL_TALK.values(), lessons.FALLBACK}


def test_a_picture_comes_before_or_after_its_question(lessons: ModuleType) -> None:
    before = lessons.Lesson("What is this?", "red circle", picture=object(), picture_first=True).messages()
    after = lessons.Lesson("What is this?", "red circle", picture=object(), picture_first=False).messages()
    assert [part["type"] for part in before[-1]["content"]] == ["image", "text"]
    assert [part["type"] for part in after[-1]["content"]] == ["text", "image"]
