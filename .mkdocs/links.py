"""A hook of mkdocs: links that leave docs/ lead to the repository, since the site has only that folder."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(\]\()(\.\./[^)\s]+)(\))")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Rewrite the links of a page that climb out of docs/; all others are mkdocs' own affair."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def absolute(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target.startswith("docs/"):
            return link[0]
        return f"{link[1]}{config.repo_url.rstrip('/')}/blob/main/{target}{link[3]}"

    return LINK.sub(absolute, markdown)
