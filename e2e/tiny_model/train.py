"""Trains the tiny model on generated pictures, and keeps the best checkpoint.

``python3 train.py --minutes 40 --output models/epd-tiny-vl``. The learning rate follows the clock, so that any
number of minutes ends with a finished schedule; two runs differ in the last digits because machines differ in speed.
"""
# mypy: disable-error-code="import-not-found, import-untyped, misc, no-untyped-call"

from __future__ import annotations

import argparse
import functools
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
from checkpoint import FRAMES, MERGE, PATCH, VISION_WIDTH, WIDTH, save, write
from evaluate import accuracy
from lessons import Lesson, lesson
from torch import nn
from torch.nn import functional
from transformers import AutoProcessor, PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration

from epd_local.pictures import COLOURS, SHAPES, SIZE, draw, unseen

SIDE = SIZE // PATCH
IMAGE_TOKENS = (SIDE // MERGE) ** 2
IGNORED = -100
WARM_UP = 0.05  # part of the time
CHECK_EVERY_SECONDS = 150.0


class Batches:
    """Endless batches of lessons as the model takes them: token ids, labels, patches, and what each picture shows."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, seed: int, pictures: int, texts: int) -> None:
        self._tokenizer = tokenizer
        self._chance = random.Random(seed)
        self._pictures = pictures
        self._texts = texts
        self._encode = functools.lru_cache(maxsize=4096)(lambda text: tuple(tokenizer.encode(text)))
        self._image_token = tokenizer.convert_tokens_to_ids("<|image_pad|>")

    def __next__(self) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        lessons = [lesson(self._chance, text_only=False) for _ in range(self._pictures)]
        subjects = [each.picture for each in lessons if each.picture is not None]
        lessons += [lesson(self._chance, text_only=True) for _ in range(self._texts)]
        rows = [self._tokens(each) for each in lessons]
        width = max(len(prompt) + len(answer) for prompt, answer in rows)
        ids = torch.full((len(rows), width), self._tokenizer.pad_token_id)
        labels = torch.full((len(rows), width), IGNORED)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for row, (prompt, answer) in enumerate(rows):
            end = len(prompt) + len(answer)
            ids[row, :end] = torch.tensor(prompt + answer)
            labels[row, len(prompt) : end] = torch.tensor(answer)
            mask[row, :end] = 1
        inputs = {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": labels,
            "mm_token_type_ids": (ids == self._image_token).long(),
            "pixel_values": torch.cat([patches(np.asarray(draw(what))) for what in subjects]),
            "image_grid_thw": torch.tensor([[1, SIDE, SIDE]]).repeat(len(subjects), 1),
        }
        shown = torch.tensor([[list(COLOURS).index(what.colour), SHAPES.index(what.shape)] for what in subjects])
        return inputs, shown

    def _tokens(self, what: Lesson) -> tuple[list[int], list[int]]:
        prompt = self._tokenizer.apply_chat_template(what.messages(), tokenize=False, add_generation_prompt=True)
        prompt = prompt.replace("<|image_pad|>", "<|image_pad|>" * IMAGE_TOKENS)
        return list(self._encode(prompt)), list(self._encode(f"{what.answer}<|im_end|>"))


def patches(image: np.ndarray) -> torch.Tensor:
    """Return a 128-pixel picture as the image processor does: a patch a row, those to be merged side by side."""
    pixels = torch.from_numpy(image.astype(np.float32) / 127.5 - 1.0).permute(2, 0, 1)
    blocks = pixels.reshape(3, SIDE // MERGE, MERGE, PATCH, SIDE // MERGE, MERGE, PATCH).permute(1, 4, 2, 5, 0, 3, 6)
    frames = blocks.unsqueeze(5).expand(-1, -1, -1, -1, -1, FRAMES, -1, -1)
    return frames.reshape(SIDE * SIDE, 3 * FRAMES * PATCH * PATCH)


class Hints(nn.Module):
    """Classifies the vision tower's output directly: a shorter path for the gradient, discarded after training."""

    def __init__(self) -> None:
        super().__init__()
        self.colour = nn.Linear(WIDTH, len(COLOURS))
        self.shape = nn.Linear(WIDTH, len(SHAPES))

    def forward(self, features: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        """Return the loss of guessing what is *shown* from the mean of each picture's tokens."""
        mean = features.reshape(-1, IMAGE_TOKENS, WIDTH).mean(dim=1)
        colours = functional.cross_entropy(self.colour(mean), shown[:, 0])
        return colours + functional.cross_entropy(self.shape(mean), shown[:, 1])


def _fast_patches(model: Qwen3VLForConditionalGeneration) -> None:
    """Compute the patch embedding as a matrix product: a 3-D convolution is slow on a CPU."""
    embed = model.model.visual.patch_embed

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        return functional.linear(hidden, embed.proj.weight.reshape(VISION_WIDTH, -1), embed.proj.bias)

    embed.forward = forward


def _rate(done: float, peak: float) -> float:
    """Return the learning rate after the part *done* of the time: linear warm-up, then a cosine to zero."""
    if done < WARM_UP:
        return peak * max(done / WARM_UP, 0.01)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (done - WARM_UP) / (1 - WARM_UP))))


def train(options: argparse.Namespace) -> None:
    """Train for the given time and write every checkpoint that is better than those before."""
    model = write(options.output, seed=options.seed).float()
    _fast_patches(model)
    processor = AutoProcessor.from_pretrained(options.output)
    batches = Batches(processor.tokenizer, seed=options.seed, pictures=options.batch * 7 // 8, texts=options.batch // 8)
    hints = Hints()
    features: list[torch.Tensor] = []
    model.model.visual.register_forward_hook(lambda _module, _inputs, output: features.append(output.pooler_output))
    optimizer = torch.optim.AdamW([*model.parameters(), *hints.parameters()], lr=options.peak, weight_decay=0.01)
    began, checked, best, step = time.monotonic(), 0.0, 0.0, 0
    losses: list[float] = []
    while (elapsed := time.monotonic() - began) < options.minutes * 60:
        done = elapsed / (options.minutes * 60)
        for group in optimizer.param_groups:
            group["lr"] = _rate(done, options.peak)
        inputs, shown = next(batches)
        features.clear()
        with torch.autocast("cpu", dtype=torch.bfloat16):  # halves the time of a step where the CPU has AVX-512 BF16
            loss = model(**inputs).loss
        total = loss + options.hints * (1 - done) * hints(features[0].float(), shown)
        optimizer.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        losses.append(loss.item())
        if step % 25 == 0:
            hint = (total.item() - loss.item()) / max(options.hints * (1 - done), 1e-9)
            lately = np.mean(losses[-25:])
            print(f"{elapsed / 60:5.1f} min  step {step:5d}  loss {lately:.4f}  hints {hint:.4f}", flush=True)
        if elapsed - checked > CHECK_EVERY_SECONDS:
            checked = elapsed
            best = _keep_the_best(model, processor, options.output, best)
    _keep_the_best(model, processor, options.output, best)


def _keep_the_best(
    model: Qwen3VLForConditionalGeneration, processor: AutoProcessor, folder: Path, best: float
) -> float:
    # Other unseen pictures than evaluate.py asks about, so that the choice of a checkpoint does not bias its score.
    model.eval()
    now = accuracy(model, processor, unseen(200, start=500_000))
    model.train()
    print(f"accuracy {now:.3f} (best so far {best:.3f})", flush=True)
    if now >= best:
        save(model, folder)
    return max(now, best)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "models" / "epd-tiny-vl")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=48, help="lessons a step, one in eight without a picture")
    parser.add_argument("--peak", type=float, default=1.5e-3, help="highest learning rate")
    parser.add_argument("--hints", type=float, default=0.5, help="weight of the extra classifier's loss, fading to 0")
    parser.add_argument("--threads", type=int, default=1, help="two help only on an otherwise idle machine")
    parsed = parser.parse_args()
    torch.set_num_threads(parsed.threads)
    train(parsed)
