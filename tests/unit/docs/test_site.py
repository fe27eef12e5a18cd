"""The documentation builds as a site with all pages and without broken links and anchors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LIST_ITEM = re.compile(r"^ {0,3}(?:[-*]|\d+\.) ", re.MULTILINE)


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of this checkout into a folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / ".mkdocs/mkdocs.yml")]
    return subprocess.run(
        [*command, "--site-dir", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0, built.stderr
    return folder


class Page(HTMLParser):
    """The addresses that a built page loads, and its number of list items, table rows and code blocks."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.count = {"li": 0, "tr": 0, "pre": 0}
        self._in_article = False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count tags of the article, and note addresses that a browser would load."""
        values = dict(attrs)
        if tag == "article":
            self._in_article = True
        if self._in_article and tag in self.count:
            self.count[tag] += 1
        address = values.get("src") or (values.get("href") if tag == "link" else None)
        if address and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(address)

    def handle_endtag(self, tag: str) -> None:
        """Stop counting at the end of the article."""
        if tag == "article":
            self._in_article = False


def pages() -> Iterator[Path]:
    """The sources of all pages."""
    return (ROOT / "docs").rglob("*.md")


def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert (site / "index.html").is_file()


def test_every_page_is_in_the_site(site: Path) -> None:
    built = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")}
    assert {page.relative_to(ROOT / "docs") for page in pages()} - built == set()


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    loaded = {(path.name, address) for path in site.rglob("*.html") for address in Page(path).loaded}
    assert {(name, address) for name, address in loaded if re.match(r"(?:\w+:)?//", address)} == set()


@pytest.mark.parametrize("page", sorted(pages()), ids=lambda page: page.name)
def test_the_site_has_all_lists_and_code_blocks_of_a_page(site: Path, page: Path) -> None:
    # The site's Markdown needs an empty line before a list, and four spaces below an item; the repository's does not.
    text = page.read_text()
    shown = Page(site / page.relative_to(ROOT / "docs").with_suffix(".html")).count
    assert shown["li"] >= len(LIST_ITEM.findall(BLOCK.sub("", text)))
    assert shown["pre"] == len(re.findall(r"^ *```\w*$", text, re.MULTILINE)) / 2
