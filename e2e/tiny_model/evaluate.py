"""Asks a checkpoint about unseen pictures, with transformers, and fails below the wanted accuracy.

``python3 evaluate.py models/epd-tiny-vl --pictures 600``.
"""
# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path

import torch
from lessons import QUESTIONS, SMALL_TALK, Lesson
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

from epd_local.pictures import Subject, draw, unseen


def accuracy(
    model: Qwen3VLForConditionalGeneration,
    processor: AutoProcessor,
    subjects: Iterable[Subject],
    *,
    verbose: bool = False,
) -> float:
    """Return the part of pictures about which colour and shape are both right, asked in every phrasing in turn."""
    lessons = [
        Lesson(question, what.answer, picture=what) for what, question in zip(subjects, cycle(QUESTIONS), strict=False)
    ]
    mistakes: Counter[tuple[str, str]] = Counter()
    for group in (lessons[start : start + 50] for start in range(0, len(lessons), 50)):
        for what, answer in zip(group, answers(model, processor, group), strict=True):
            if answer != what.answer:
                mistakes[what.answer, answer] += 1
    if verbose:
        for (wanted, got), times in mistakes.most_common():
            print(f"  {times} x {wanted!r} answered {got!r}")
    return 1 - mistakes.total() / len(lessons)


def answers(model: Qwen3VLForConditionalGeneration, processor: AutoProcessor, lessons: Sequence[Lesson]) -> list[str]:
    """Return the model's answers, with the likeliest token each time."""
    texts = [processor.apply_chat_template(what.messages(), add_generation_prompt=True) for what in lessons]
    images = [draw(what.picture) for what in lessons if what.picture is not None]
    inputs = processor(text=texts, images=images or None, return_tensors="pt", padding=True, padding_side="left")
    with torch.no_grad():
        tokens = model.generate(**inputs, max_new_tokens=24, do_sample=False)
    return list(processor.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def main() -> int:
    """Print the accuracy on pictures and the answers to texts; exit code 1 if the model is not good enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--pictures", type=int, default=600)
    parser.add_argument("--wanted", type=float, default=0.95)
    options = parser.parse_args()
    model = Qwen3VLForConditionalGeneration.from_pretrained(options.checkpoint, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(options.checkpoint)
    right = accuracy(model, processor, unseen(options.pictures), verbose=True)
    print(f"{right:.1%} of {options.pictures} unseen pictures right (wanted: {options.wanted:.0%})")
    texts = [*SMALL_TALK, "What is the capital of France?", "Write a poem about the sea."]
    found = answers(model, processor, [Lesson(text, "") for text in texts])
    for text, answer in zip(texts, found, strict=True):
        print(f"  {text!r}: {answer!r}")
    wrong = [
        text for text, answer in zip(texts, found, strict=True) if SMALL_TALK.get(text, answer) != answer or not answer
    ]
    return int(right < options.wanted or bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
