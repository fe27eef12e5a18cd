"""Pictures of one coloured shape on grey: training data of the tiny model, and the images of the demo and the tests.

``python3 -m epd_local.pictures red circle --seed 7`` prints a PNG as a data URL, ready for an ``image_url`` of the
OpenAI API. A picture depends only on its colour, shape, seed and size. Training uses seeds below `UNSEEN`; a picture
with a higher seed was not in the training data, so a correct answer about it is not memorized.
"""

from __future__ import annotations

import argparse
import base64
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 35, 35),
    "green": (30, 160, 50),
    "blue": (40, 70, 220),
    "yellow": (240, 215, 30),
    "purple": (145, 40, 175),
    "orange": (245, 130, 20),
}
SHAPES = ("circle", "square", "triangle")
SIZE = 128
UNSEEN = 1_000_000_000
QUESTION = "What is in the picture?"

_TINT = 12  # largest difference of a channel from the table above
_GREY = (70, 200)
_RADIUS = (0.22, 0.40)  # in parts of the picture's side
_TRIANGLE = ((0.0, -1.0), (0.95, 0.85), (-0.95, 0.85))


@dataclass(frozen=True)
class Subject:
    """The colour and the shape in a picture, and the seed for all other properties."""

    colour: str
    shape: str
    seed: int

    def __post_init__(self) -> None:
        if self.colour not in COLOURS:
            raise ValueError(f"unknown colour {self.colour!r}: choose one of {', '.join(COLOURS)}")
        if self.shape not in SHAPES:
            raise ValueError(f"unknown shape {self.shape!r}: choose one of {', '.join(SHAPES)}")

    @property
    def answer(self) -> str:
        """The correct answer about the picture, such as ``red circle``."""
        return f"{self.colour} {self.shape}"


def subject(seed: int) -> Subject:
    """Return the subject of *seed*; all colours and shapes are equally likely."""
    chance = random.Random(f"subject {seed}")
    return Subject(chance.choice(tuple(COLOURS)), chance.choice(SHAPES), seed)


def unseen(count: int, *, start: int = 0) -> Iterator[Subject]:
    """Yield *count* subjects with seeds that are not used for training."""
    return (subject(UNSEEN + start + number) for number in range(count))


def draw(what: Subject, *, size: int = SIZE) -> Image.Image:
    """Draw *what* on a square of *size* pixels; the seed sets grey, position, size and tint."""
    chance = random.Random(f"{what.answer} {what.seed}")
    grey = chance.randint(*_GREY)
    colour = tuple(max(0, min(255, channel + chance.randint(-_TINT, _TINT))) for channel in COLOURS[what.colour])
    radius = chance.uniform(*_RADIUS) * size
    x, y = (chance.uniform(radius, size - radius) for _ in range(2))
    image = Image.new("RGB", (size, size), (grey, grey, grey))
    canvas = ImageDraw.Draw(image)
    if what.shape == "circle":
        canvas.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    elif what.shape == "square":
        half = radius * 0.88  # about the same area as a circle, so that the area does not reveal the shape
        canvas.rectangle((x - half, y - half, x + half, y + half), fill=colour)
    else:
        canvas.polygon([(x + radius * dx, y + radius * dy) for dx, dy in _TRIANGLE], fill=colour)
    return image


def png(what: Subject, *, size: int = SIZE) -> bytes:
    """Return the picture as a PNG file."""
    buffer = io.BytesIO()
    draw(what, size=size).save(buffer, format="PNG")
    return buffer.getvalue()


def data_url(what: Subject, *, size: int = SIZE) -> str:
    """Return the picture as a ``data:`` URL that a chat completion request can carry."""
    return "data:image/png;base64," + base64.b64encode(png(what, size=size)).decode()


def main() -> int:
    """Print one picture as a data URL, or write it to a file."""
    parser = argparse.ArgumentParser(prog="python3 -m epd_local.pictures", description="Draw a coloured shape.")
    parser.add_argument("colour", choices=tuple(COLOURS))
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--seed", type=int, default=UNSEEN, help="seed of all other properties (default: %(default)s)")
    parser.add_argument("--size", type=int, default=SIZE, help="side in pixels (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="write a PNG file here instead of printing a data URL")
    options = parser.parse_args()
    what = Subject(options.colour, options.shape, options.seed)
    if options.output:
        options.output.write_bytes(png(what, size=options.size))
    else:
        print(data_url(what, size=options.size))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
