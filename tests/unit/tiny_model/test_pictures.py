"""The pictures for training and testing the tiny model."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from epd_local.pictures import COLOURS, SHAPES, SIZE, UNSEEN, Subject, data_url, draw, png, subject, unseen

SUBJECTS = st.builds(
    Subject,
    st.sampled_from(tuple(COLOURS)),
    st.sampled_from(SHAPES),
    st.integers(min_value=0, max_value=2 * UNSEEN),
)


def pixels(image: Image.Image) -> bytes:
    return image.tobytes()


def rgb(image: Image.Image) -> list[list[tuple[int, ...]]]:
    raw = image.tobytes()
    values = [tuple(raw[at : at + 3]) for at in range(0, 3 * SIZE * SIZE, 3)]
    return [values[at : at + SIZE] for at in range(0, SIZE * SIZE, SIZE)]


@given(SUBJECTS)
def test_the_same_seed_draws_the_same_picture(what: Subject) -> None:
    assert pixels(draw(what)) == pixels(draw(what))


def test_the_pictures_equal_those_that_the_shipped_model_was_evaluated_on() -> None:
    digest = hashlib.sha256()
    for what in unseen(50):
        digest.update(what.answer.encode() + pixels(draw(what)))
    assert digest.hexdigest() == "1e55255c1c269b3bc38bed0a7f376d43cd4d9b7e7f1af3516e599c84d23cb80b"


def test_different_seeds_draw_different_pictures() -> None:
    seen = {pixels(draw(Subject("red", "circle", seed))) for seed in range(200)}
    assert len(seen) == 200


def test_every_colour_and_shape_is_about_equally_likely() -> None:
    answers = Counter(subject(seed).answer for seed in range(9000))
    assert set(answers) == {f"{colour} {shape}" for colour, shape in itertools.product(COLOURS, SHAPES)}
    assert all(400 < times < 600 for times in answers.values())


def test_unseen_subjects_have_seeds_that_training_never_uses() -> None:
    seeds = [what.seed for what in unseen(10, start=5)]
    assert seeds == [UNSEEN + number for number in range(5, 15)]


@given(SUBJECTS)
def test_a_shape_is_inside_the_picture_on_a_grey_background(what: Subject) -> None:
    rows = rgb(draw(what))
    border = [*rows[0], *rows[-1], *(row[0] for row in rows), *(row[-1] for row in rows)]
    (most, times), *_ = Counter(border).most_common()
    assert len(set(most)) == 1
    assert times > 0.8 * len(border)


@given(SUBJECTS)
def test_a_shape_has_the_colour_of_its_answer(what: Subject) -> None:
    counts = Counter(pixel for row in rgb(draw(what)) for pixel in row)
    painted = next(colour for colour, _ in counts.most_common() if len(set(colour)) > 1)

    def distance(name: str) -> int:
        return sum((a - b) ** 2 for a, b in zip(COLOURS[name], painted, strict=True))

    assert min(COLOURS, key=distance) == what.colour
    assert counts[painted] > 0.05 * SIZE * SIZE


@given(SUBJECTS, st.sampled_from([64, 128, 224]))
def test_a_png_and_a_data_url_contain_the_drawn_picture(what: Subject, size: int) -> None:
    expected = draw(what, size=size)
    assert expected.size == (size, size)
    assert pixels(Image.open(io.BytesIO(png(what, size=size)))) == pixels(expected)
    kind, _, payload = data_url(what, size=size).partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(payload) == png(what, size=size)


@pytest.mark.parametrize(("colour", "shape", "reason"), [("pink", "circle", "colour"), ("red", "star", "shape")])
def test_an_unknown_subject_is_refused_with_the_choices(colour: str, shape: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"unknown {reason} .*: choose one of"):
        Subject(colour, shape, 1)


def test_the_command_prints_the_data_url_of_a_picture() -> None:
    command = [sys.executable, "-m", "epd_local.pictures", "blue", "square", "--seed", "7"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == data_url(Subject("blue", "square", 7)) + "\n"
