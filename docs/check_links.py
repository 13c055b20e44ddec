"""Follow every link within a built site, as `make docs` does: python docs/check_links.py docs/_build/html."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Where the links of a page lead, and the places in it that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.links |= {value for name in ("href", "src") if (value := named.get(name))}
        self.anchors |= {value for name in ("id", "name") if (value := named.get(name))}


def broken_links(site: Path) -> list[str]:
    """Links to files or anchors that are not there, each with its page."""
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            goal = (path.parent / unquote(target.path)).resolve() if target.path else path
            anchor = unquote(target.fragment)
            if not goal.exists() or (anchor and goal in pages and anchor not in pages[goal].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


if __name__ == "__main__":
    sys.exit("\n".join(broken_links(Path(sys.argv[1]))) or None)
