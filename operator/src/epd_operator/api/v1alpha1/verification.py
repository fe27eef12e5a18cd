"""Requests with known answers, which a revision must answer before it serves."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from epd_operator.api.markers import Bool, Int, ListMap, Rule
from epd_operator.api.v1alpha1.base import ApiModel, DnsLabel

MAX_REQUESTS = 8
MAX_MESSAGES = 8
MAX_CHARACTERS = 128 * 1024
"""Of all texts and pictures together: each of the recorded specs contains them, and etcd limits objects to 1.5 MiB."""

# A pattern and not a rule, which would exceed the budget of rules for texts of this length.
Picture = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_CHARACTERS,
        pattern=r"^(data:image/[a-z0-9.+-]+;base64,[A-Za-z0-9+/]+=*|https?://[!-~]+)$",
    ),
]

# RE2 has no pattern that takes exponential time. An invalid one makes the rule itself fail, with the cause.
Pattern = Annotated[
    str,
    Field(min_length=1, max_length=1024),
    Rule(expression="''.matches(self) in [true, false]", message="not a regular expression of RE2"),
]


class Role(StrEnum):
    """Author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(ApiModel):
    """One message of a chat."""

    # No default: the API server would write an object again for every server-side apply that leaves it out, because
    # it compares an atomic list before it sets defaults.
    role: Role | None = Field(default=None, description="Author of the message. Unset means user.")
    text: Annotated[str, Field(min_length=1, max_length=16384)] = Field(description="Text of the message.")
    images: Annotated[list[Picture], Field(max_length=4)] | None = Field(
        default=None,
        description="Pictures before the text: data:image/png;base64, and the file in base64, or URLs with https:// "
        "that the pods can reach.",
    )


class ExpectedText(ApiModel):
    """What the text of an answer must be. White space at its beginning and end is ignored."""

    equals: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="The whole text."
    )
    contains: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="A part of the text."
    )
    matches: Pattern | None = Field(
        default=None,
        description="A regular expression (RE2) that matches a part of the text; with ^ and $ the whole text. (?i) at "
        "its beginning ignores case.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            expression="[has(self.equals), has(self.contains), has(self.matches)].filter(is_set, is_set).size() == 1",
            message="set exactly one of equals, contains and matches",
        ),
    )


class LogProbabilities(ApiModel):
    """A comparison of the answer, token by token, with that of the revision that serves."""

    tolerance: Annotated[str, Field(max_length=8, pattern=r"^[0-9]{1,2}([.][0-9]{1,4})?$")] = Field(
        description="Largest difference between two natural logarithms of the probability of the same token, as a "
        "decimal number in quotes: with 0.1, a probability may differ by about 10 %."
    )


class Expectation(ApiModel):
    """What an answer must fulfil."""

    text: ExpectedText | None = Field(default=None, description="Expected text of the answer.")
    log_probabilities: LogProbabilities | None = Field(
        default=None,
        description="Compare the probabilities of the tokens with those of the revision that serves. Without effect if "
        "none serves, or if it does not answer.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            expression="has(self.text) || has(self.logProbabilities)",
            message="nothing is expected of the answer: set text or logProbabilities",
        ),
    )


class VerificationRequest(ApiModel):
    """A request with a known answer. It is sent with temperature 0, so that the answer can be compared."""

    name: DnsLabel = Field(description="Name of the request, for messages.")
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)] = Field(
        description="Messages of the chat; the last is the question."
    )
    max_tokens: Annotated[Int, Field(ge=1, le=256)] = Field(
        default=16, description="Maximum length of the answer, in tokens."
    )
    expect: Expectation = Field(description="What the answer must fulfil.")


class Verification(ApiModel):
    """Requests with known answers. A new revision that answers wrongly does not get the requests of clients.

    The workers of the revision that serves are asked again and again, and the condition Ready reports wrong answers.
    """

    requests: Annotated[list[VerificationRequest], Field(min_length=1, max_length=MAX_REQUESTS), ListMap(("name",))] = (
        Field(description="The requests. Do not put secrets into them: status and Events quote them.")
    )

    interval_seconds: Annotated[Int, Field(ge=60, le=86400)] = Field(
        default=900,
        description="Time between two rounds of the requests to the workers of the revision that serves, in seconds.",
    )
    replace_wrong_workers: Bool = Field(
        default=False,
        description="Whether a worker of the revision that serves is evicted if it answers wrongly and another one "
        "answers right: one at a time, as the disruption budget allows, and only if no pod of its stage is newer than "
        "intervalSeconds.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            expression="self.requests.map(r, r.messages.map(m, m.text.size() + (has(m.images) ? "
            f"m.images.map(i, i.size()).sum() : 0)).sum()).sum() <= {MAX_CHARACTERS}",
            message=f"all texts and pictures together must have at most {MAX_CHARACTERS} characters: use smaller "
            "pictures, or URLs",
            field_path=".requests",
        ),
    )
