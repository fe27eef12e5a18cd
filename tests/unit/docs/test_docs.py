"""The documentation matches the code: names, links, make targets, manifests, ports and variables."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from epd_operator.api.v1alpha1 import EPDDeployment
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages
from epd_operator.plan.status.reasons import ConditionType, Reason
from epd_operator.telemetry.health import Health, export_health
from epd_operator.telemetry.metrics import Metrics
from epd_operator.telemetry.scaling_metrics import PageMetrics, ScalingMetrics
from support.specs import spec as parsed_spec

ROOT = Path(__file__).resolve().parents[3]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")), *DECISIONS]
CONDITIONS = ROOT / "docs" / "conditions.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
POD_CONTRACT = ROOT / "docs" / "pod-contract.md"
HIGH_AVAILABILITY = ROOT / "docs" / "high-availability.md"
METRICS = ROOT / "docs" / "metrics-reference.md"
IDENTITY = Identity(name="qwen-vl", namespace="default", uid="1")

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
MAKE = re.compile(r"(?:^|[;&|] *)make((?: +[^#\n`;&|]+)?)", re.MULTILINE)

every_page = pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", page.read_text())


def blocks(page: Path, language: str | None = None) -> list[str]:
    """The code blocks of a page, of one language if given."""
    return [text for found, text in FENCE.findall(page.read_text()) if language in (None, found)]


def links(page: Path) -> list[str]:
    """Targets of the links of a page; brackets in code are no links."""
    return LINK.findall(SPAN.sub("", prose(page)))


def anchors(page: Path) -> set[str]:
    """Anchors that GitHub makes of the headings of a page."""
    found: set[str] = set()
    for _, title in HEADING.findall(prose(page)):
        plain = re.sub(r"[^\w\- ]", "", LINK.sub(lambda m: m[0].split("](")[0], title).lower()).replace(" ", "-")
        names = (plain if number == 0 else f"{plain}-{number}" for number in range(100))
        found.add(next(name for name in names if name not in found))
    return found


def section(page: Path, title: str) -> str:
    """A page from the heading to the next heading of the same or a higher level."""
    text = page.read_text()
    start = next(m for m in HEADING.finditer(text) if m[2] == title)
    ends = (m.start() for m in HEADING.finditer(text, start.end()) if len(m[1]) <= len(start[1]))
    return text[start.end() : next(ends, len(text))]


# Conditions


def test_conditions_md_has_a_heading_for_each_condition_type_and_reason_and_for_nothing_else() -> None:
    headings = [title for level, title in HEADING.findall(prose(CONDITIONS)) if level == "###"]
    assert sorted(headings) == sorted([*ConditionType, *Reason])


@pytest.mark.parametrize("name", [*ConditionType, *Reason])
def test_each_condition_type_and_reason_is_explained(name: str) -> None:
    explanation = FENCE.sub("", section(CONDITIONS, name)).strip()
    assert len(explanation.split()) >= 10


# Links


@every_page
def test_relative_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_of_the_documentation_is_in_the_index() -> None:
    linked = set(links(ROOT / "docs" / "index.md"))
    assert [page.name for page in PAGES if page.parent.name == "docs" and page.name not in linked] == ["index.md"]


def test_every_decision_is_in_the_index_of_decisions() -> None:
    linked = set(links(ROOT / "docs" / "decisions" / "index.md"))
    assert [page.name for page in DECISIONS if page.name not in linked] == ["index.md"]


@pytest.mark.parametrize("page", [page for page in DECISIONS if page.name != "index.md"], ids=lambda page: page.stem)
def test_every_decision_has_its_number_and_the_three_sections(page: Path) -> None:
    (_, title), *sections = HEADING.findall(prose(page))
    assert title.startswith(f"{page.name[:4]}: ")
    assert [name for _, name in sections] == ["Context", "Decision", "Consequences"]


@pytest.mark.parametrize(
    "page", [ARCHITECTURE, POD_CONTRACT, HIGH_AVAILABILITY, *DECISIONS], ids=lambda page: page.stem
)
def test_python_files_named_in_pages_about_the_code_exist(page: Path) -> None:
    places = (ROOT, ROOT / "operator" / "src" / "epd_operator")
    named = [name for name in SPAN.findall(prose(page)) if re.fullmatch(r"[\w/.]+\.py", name)]
    assert named or page in DECISIONS
    assert [name for name in named if not any((place / name).is_file() for place in places)] == []


# Commands


def make_targets(text: str) -> set[str]:
    """Targets of the ``make`` commands in shell text."""
    words = [word for arguments in MAKE.findall(text) for word in arguments.split()]
    return {word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)}


@every_page
def test_make_targets_named_in_pages_exist(page: Path) -> None:
    shell = [*blocks(page, ""), *blocks(page, "sh"), *blocks(page, "console"), *SPAN.findall(prose(page))]
    named = set().union(*(make_targets(text) for text in shell))
    known = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named - known == set()


def test_the_readme_has_the_demo_commands_and_the_test_command() -> None:
    shell = "\n".join(blocks(ROOT / "README.md"))
    assert {"demo", "down", "test"} <= make_targets(shell)


def test_the_test_command_of_the_readme_is_what_ci_runs() -> None:
    (block,) = [text for _, text in FENCE.findall(section(ROOT / "README.md", "Develop"))]
    command = block.splitlines()[0].partition("#")[0].strip()
    ci = [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    runs = [line.replace(" --no-print-directory", "") for line in ci if line.startswith("make ")]
    assert runs == [command] == ["make test"]


# Manifests


def strict(schema: Any) -> Any:
    """The CRD's schema, refusing unknown fields as ``kubectl apply`` does."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed["additionalProperties"] = False
    return closed


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The schema in the CRD."""
    crd = yaml.safe_load((ROOT / "crds" / "epd.dev_epddeployments.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    return strict(version["schema"]["openAPIV3Schema"])


def documents() -> Iterator[Any]:
    """YAML of pages and examples, one parameter each."""
    for page in PAGES:
        for number, text in enumerate(blocks(page, "yaml"), start=1):
            for document in yaml.safe_load_all(text):
                yield pytest.param(document, id=f"{page.name}-{number}")
    for path in sorted((ROOT / "examples").glob("*/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield pytest.param(document, id=f"{path.parent.name}-{path.stem}")


def is_manifest(document: dict[str, Any]) -> bool:
    return document.get("kind") == "EPDDeployment"


@pytest.mark.parametrize("document", [p for p in documents() if is_manifest(p.values[0])])
def test_manifests_match_the_models_and_the_crd_and_can_be_planned(
    document: dict[str, Any], schema: dict[str, Any]
) -> None:
    jsonschema.validate({key: value for key, value in document.items() if key != "metadata"}, schema)
    deployment = EPDDeployment.model_validate(document)
    stages = plan_stages(deployment.spec, identity=IDENTITY)
    assert len(stages) >= 2


OTHER_FILES = {"kind", "workloads", "traffic"}
"""Fields by which whole manifests and input files of epdctl are known."""


@pytest.mark.parametrize("document", [p for p in documents() if not OTHER_FILES & p.values[0].keys()])
def test_parts_of_manifests_match_the_crd(document: dict[str, Any], schema: dict[str, Any]) -> None:
    fields = schema["properties"]["spec"]["properties"]
    assert document.keys() <= fields.keys()
    for name, value in document.items():
        jsonschema.validate(value, fields[name])


# Environment, ports and metrics


def table_names(page: Path, title: str) -> set[str]:
    """Code spans in the first column of the tables under a heading of a page."""
    rows = [line.split("|")[1] for line in section(page, title).splitlines() if line.startswith("| ")]
    return {name for row in rows for name in SPAN.findall(row)}


def test_the_environment_table_lists_the_variables_of_the_containers() -> None:
    transfer = {"ucx": {"transports": ["tcp"], "devices": ["eth0"]}}
    model = {"name": "m", "tokenSecret": {"name": "s", "key": "k"}}
    given: set[str] = set()
    for topology in ("Aggregated", "CoLocated", "Disaggregated"):
        group = {"group": {"pool": "gb200", "encoder": {"gpuThreadPercent": 30, "gpuMemoryLimit": "6Gi"}}}
        changes = group if topology == "CoLocated" else {}
        for stage in plan_stages(parsed_spec(topology, transfer=transfer, model=model, **changes), identity=IDENTITY):
            for container in stage.pod_template["spec"]["containers"]:
                env = {variable["name"]: variable.get("value", "") for variable in container["env"]}
                document = yaml.safe_load(env.pop("EPD_GROUP", "{}"))
                given.update(env, *(process["env"] for process in document.get("processes", ())))
    assert table_names(POD_CONTRACT, "Environment of the processes") == given


def test_the_ports_table_has_every_port_that_the_pods_declare() -> None:
    documented = set(map(int, re.findall(r"\b\d{4,5}\b", section(POD_CONTRACT, "Ports"))))
    for topology in ("Aggregated", "CoLocated", "Disaggregated"):
        for stage in plan_stages(parsed_spec(topology), identity=IDENTITY):
            declared = [port for c in stage.pod_template["spec"]["containers"] for port in c.get("ports", ())]
            first = {p["containerPort"] for p in declared if not re.fullmatch(r"system-[1-9]\d*", p["name"])}
            assert first
            assert first <= documented


def test_the_metrics_table_lists_the_metrics_that_the_operator_exports() -> None:
    documented = {name.partition("{")[0] for name in table_names(METRICS, "Metrics of the operator")}
    metrics = Metrics()
    ScalingMetrics(metrics.registry)
    PageMetrics(metrics.registry)
    export_health(Health(clock=lambda: 0.0), leads=lambda: True, registry=metrics.registry)
    exported = {family.name for family in metrics.registry.collect() if family.name != "epd_operator_build"}
    assert {name.removesuffix("_total") for name in documented} == exported


# Text that must not be in the repository


def _joined(*parts: str) -> str:
    """The joined text, which this file must not contain itself."""
    return "".join(parts)


PACKAGE_HOSTS = tuple(
    _joined(name, ".", domain)
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("download.pytorch", "org"),
        ("proxy.golang", "org"),
        ("sum.golang", "org"),
        ("goproxy", "io"),
        ("goproxy", "cn"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("deb.debian", "org"),
        ("security.debian", "org"),
        ("archive.ubuntu", "com"),
        ("ports.ubuntu", "com"),
    )
)
FORBIDDEN = re.compile(
    "|".join(
        (
            *(re.escape(host) for host in PACKAGE_HOSTS),
            # The address of any package index, including mirrors.
            _joined("https?://[^ '\"]+/", "simple", r"\b"),
            _joined("--(extra-)?", "index", "-url[ =]"),
            # Folders of a person's or a build machine.
            _joined(r"(?<![\w.$}/-])/", r"(work|root|Users|home/[a-z_][\w-]*)/"),
        )
    )
)


def test_no_tracked_file_names_a_package_registry_or_a_folder_of_one_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_symlink() or not path.is_file():
            continue
        for number, line in enumerate(path.read_bytes().decode(errors="ignore").splitlines(), start=1):
            if FORBIDDEN.search(line):
                found.append(f"{name}:{number}: {line.strip()[:120]}")
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        _joined("see https://", "pypi", ".org/project/kopf"),
        _joined("--extra-", "index-url https://mirror.example"),
        _joined("https://mirror.example/python/", "simple/"),
        _joined("open('/", "home/anna/clone')"),
        _joined("/", "root/.cache"),
    ],
)
def test_the_search_finds_forbidden_text(line: str) -> None:
    assert FORBIDDEN.search(line)


@pytest.mark.parametrize(
    "line", ["uv pip compile --no-emit-index-url", "$HOME/.cache", "the /workers page", "e2e/work/"]
)
def test_the_search_ignores_allowed_text(line: str) -> None:
    assert not FORBIDDEN.search(line)
