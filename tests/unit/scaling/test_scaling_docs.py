"""docs/scaling-decisions.md explains every reason, and the examples of docs/autoscaling.md are settings that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, Scaling, ServiceLevel
from epd_operator.api.v1alpha1.base import ApiModel
from epd_operator.scaling.model import ScalingReason

DOCS = Path(__file__).resolve().parents[3] / "docs"
DECISIONS = (DOCS / "scaling-decisions.md").read_text()
SETTINGS = (DOCS / "autoscaling.md").read_text()
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", SETTINGS, re.MULTILINE | re.DOTALL)]
MODELS: dict[str, type[ApiModel]] = {"autoscaling": Autoscaling, "scaling": Scaling, "slo": ServiceLevel}


def test_every_reason_has_a_heading_and_no_other_has() -> None:
    assert re.findall(r"^### (\w+)$", DECISIONS, re.MULTILINE) == [str(reason) for reason in ScalingReason]


@pytest.mark.parametrize("reason", ScalingReason)
def test_every_reason_is_explained(reason: ScalingReason) -> None:
    explanation = DECISIONS.split(f"### {reason}\n")[1].split("\n#")[0]
    assert len(explanation.split()) >= 10


def settings() -> list[Any]:
    blocks = [block for example in EXAMPLES for block in (example, *example.values())]
    return [
        pytest.param(MODELS[key], block[key], id=f"{key}-{number}")
        for number, block in enumerate(blocks)
        for key in MODELS
        if key in block
    ]


@pytest.mark.parametrize(("model", "written"), settings())
def test_examples_are_settings_that_exist(model: type[ApiModel], written: Any) -> None:
    read = model.model_validate(written)
    assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == written
