"""Pieces of HTML. Whatever comes from a user goes through `text`, which makes it inert."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import Any

from taufpl.report._format import NONE

_TAG = re.compile("<[^>]*>")


def text(value: Any) -> str:
    """Text that is safe between tags and in quoted attributes.

    Examples
    --------
    >>> text('<b title="x">&')
    '&lt;b title=&quot;x&quot;&gt;&amp;'
    """
    # Half a surrogate pair cannot be written, and a NUL has no place in HTML.
    clean = str(value).encode("utf-8", "replace").decode("utf-8").replace("\x00", "�")
    return html.escape(clean, quote=True)


def embedded(data: Any) -> str:
    r"""JSON that is safe inside a script element.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    found = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return found.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def asset(name: str) -> str:
    """Text of a file that comes with this package."""
    return (files("taufpl.report") / "assets" / name).read_text(encoding="utf-8")


def fill(name: str, **parts: str) -> str:
    """A template of this package with its places filled."""
    return Template(asset(name)).substitute(parts)


def section(key: str, title: str, intro: str, body: str, *, classes: str = "") -> str:
    """A part of the report; `title` is text, `intro` and `body` are HTML."""
    lead = f'<p class="lead">{intro}</p>' if intro else ""
    return (
        f'<section class="{f"panel {classes}".strip()}" aria-labelledby="{key}"><h2 id="{key}">{text(title)}</h2>'
        f"{lead}{body}</section>"
    )


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    classes: str = "",
    numeric: Iterable[int] = (),
    marked: int | None = None,
) -> str:
    """A table whose cells are HTML. The first cell of a row names it; on a phone every row becomes a block.

    Roles are spelled out, because a block would lose them.
    """
    right = set(numeric)
    heads = "".join(
        f'<th scope="col" role="columnheader"{_number(i in right)}>{name}</th>' for i, name in enumerate(head)
    )
    lines = []
    for number, row in enumerate(rows):
        first, *rest = row
        cells = f'<th scope="row" role="rowheader"{_number(0 in right)}>{first}</th>' + "".join(
            f'<td role="cell" data-label="{_TAG.sub("", name)}"{_number(i in right)}>{cell}</td>'
            for i, (name, cell) in enumerate(zip(head[1:], rest, strict=True), start=1)
        )
        lines.append(f'<tr role="row"{" class=own" if number == marked else ""}>{cells}</tr>')
    return (
        f'<div class="table"><table role="table" class="{classes}"><caption>{caption}</caption>'
        f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(lines)}</tbody></table></div>'
    )


def facts(pairs: Iterable[tuple[str, str]], classes: str = "facts") -> str:
    """Terms and their values, both plain text."""
    inside = "".join(f"<div><dt>{text(term)}</dt><dd>{text(value)}</dd></div>" for term, value in pairs)
    return f'<dl class="{classes}">{inside}</dl>'


def card(name: str, value: str, notes: Sequence[str], *, key: str, tone: str = "") -> str:
    """A key figure, plain text all of it."""
    lines = "".join(f"<p>{text(note)}</p>" for note in notes)
    return (
        f'<div class="card {tone}" id="{key}"><h3>{text(name)}</h3>'
        f'<p class="figure{" muted" if value == NONE else ""}">{text(value)}</p>{lines}</div>'
    )


def note(body: str, tone: str = "") -> str:
    """A remark; HTML."""
    return f'<p class="note {tone}">{body}</p>'


def _number(is_number: bool) -> str:
    return ' class="n"' if is_number else ""
