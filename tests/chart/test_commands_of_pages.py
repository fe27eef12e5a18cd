"""Commands in the documentation that check the operator's rights are answered with yes by a healthy cluster."""

from __future__ import annotations

import re
import shlex

import pytest

from support.charts import ROOT, Site
from support.helm import Helm
from support.kubectl import Kubectl

QUESTION = re.compile(r"^kubectl (auth can-i (?!--list).*)$", re.MULTILINE)
QUESTIONS = sorted({found for page in (ROOT / "docs").rglob("*.md") for found in QUESTION.findall(page.read_text())})


@pytest.fixture
def kubectl(helm: Helm, site: Site) -> Kubectl:
    """A release of the chart as the pages assume it, and kubectl with the rights of an administrator."""
    helm.install("epd-operator", namespace=site.system)
    return Kubectl(kubeconfig=site.server.kubeconfig)


def test_the_operator_has_every_right_that_a_page_checks(kubectl: Kubectl, site: Site) -> None:
    assert any("leases" in question for question in QUESTIONS)
    for question in QUESTIONS:
        here = question.replace("epd-system", site.system).replace("NAMESPACE", site.teams[0])
        assert kubectl.run(*shlex.split(here)).output == "yes\n", question
