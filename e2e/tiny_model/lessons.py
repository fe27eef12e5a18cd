"""The training data of the tiny model: questions, answers, and how they are mixed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from epd_local.pictures import QUESTION, UNSEEN, Subject, subject

QUESTIONS = (
    QUESTION,
    "What is in this picture?",
    "What is in the image?",
    "What is in this image?",
    "What do you see?",
    "What do you see in the picture?",
    "What is this?",
    "Describe the picture.",
    "Describe the image.",
    "Describe this image.",
    "Which colour and shape is it?",
    "What colour is the shape?",
    "Name the colour and the shape.",
    "Please describe the picture in two words.",
    "",
)
SMALL_TALK: Mapping[str, str] = {
    "Say hello.": "hello",
    "Say hello": "hello",
    "Hello": "hello",
    "Hello!": "hello",
    "Hi": "hello",
    "Who are you?": "I am a tiny model that sees colours and shapes.",
    "What are you?": "I am a tiny model that sees colours and shapes.",
    "What can you do?": "I tell the colour and the shape in a picture.",
    "Thank you.": "you are welcome",
    "Thanks": "you are welcome",
}
FALLBACK = "Show me a picture and I tell its colour and shape."
SYSTEM_PROMPTS = ("You are a helpful assistant.", "Answer briefly.")
WORDS = tuple(
    """
    the a of and to in is it you that he was for on are with as I his they be at one have this from or had by word
    but what some we can out other were all there when up use your how said each she which do their time if will
    way about many then them write would like so these her long make thing see him two has look more day could go
    come did number sound no most people my over know water than call first who may down side been now find any
    new work part take get place made live where after back little only round man year came show every good me
    give our under name very through capital France count ten story poem weather today explain code python list
    three cats dog sum 1 2 3 42 why tell test
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Lesson:
    """One exchange. ``picture`` is None for text alone; ``picture_first`` orders the parts of the user's message."""

    question: str
    answer: str
    picture: Subject | None = None
    picture_first: bool = True
    system: str | None = None

    def messages(self) -> list[dict[str, object]]:
        """Return the prompt in the form that chat templates take."""
        parts: list[dict[str, str]] = [{"type": "text", "text": self.question}] if self.question else []
        if self.picture is not None:
            parts.insert(0 if self.picture_first else len(parts), {"type": "image"})
        before: list[dict[str, object]] = [{"role": "system", "content": self.system}] if self.system else []
        return [*before, {"role": "user", "content": parts}]


def lesson(chance: random.Random, *, text_only: bool) -> Lesson:
    """Draw a lesson: a picture that is not in the test set, or a text."""
    system = chance.choice(SYSTEM_PROMPTS) if chance.random() < 0.15 else None
    if text_only:
        if chance.random() < 0.5:
            question, answer = chance.choice(tuple(SMALL_TALK.items()))
            return Lesson(question, answer, system=system)
        return Lesson(_chatter(chance), FALLBACK, system=system)
    what = subject(chance.randrange(UNSEEN))
    question = chance.choice(QUESTIONS) if chance.random() < 0.8 else _chatter(chance)
    return Lesson(question, what.answer, picture=what, picture_first=chance.random() < 0.5, system=system)


def _chatter(chance: random.Random) -> str:
    """Return a meaningless text, or a question that needs a picture, to train the fallback answer."""
    if chance.random() < 0.15:
        return chance.choice(QUESTIONS[:-1])
    words = [_word(chance) for _ in range(chance.randint(1, 8))]
    return " ".join(words).capitalize() + chance.choice((".", "?", "!", ""))


def _word(chance: random.Random) -> str:
    if chance.random() < 0.8:
        return chance.choice(WORDS)
    return "".join(chance.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(chance.randint(1, 8)))
