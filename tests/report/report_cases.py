"""Models, data and readers that the tests of reports share."""

import html
import json
import re
from html.parser import HTMLParser

import numpy as np

from estimator_cases import ScoreItself
from taufpl import NeymanPearsonClassifier, TauFPLClassifier

VOID = {"br", "hr", "img", "input", "link", "meta"}
NASTY = (
    """</script><script>alert("1")</script><img src=x onerror='alert(2)'>&amp; "q" 'a' """
    "`$title` ${x} \u2028 日本 \u202e \ud800"
)


def screening(n=4000, m=300, seed=1, shift=2.0):
    """Negatives and positives whose score is the first of three features."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [n, m])
    X = rng.normal(size=(n + m, 3))
    X[:, 0] += shift * y
    return X, y


def guarded(tau=0.01, n=3000, labels=(0, 1), seed=0, **options):
    """The first feature under a guarantee."""
    X, y = screening(n, 200, seed)
    y = np.asarray(labels)[y]
    scorer = ScoreItself().fit(X, y)
    options = {"pos_label": labels[1], **options}
    return NeymanPearsonClassifier(scorer, tau, cv="prefit", **options).fit(X, y)


def embedded(page):
    """The data inside a page."""
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


class Reader(HTMLParser):
    """Text and attributes of a page, and a check that every tag is closed in order."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words, self.bad = [], [], [], [], []
        self.feed(page)
        self.close()
        self.bad += self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.bad.append(tag)

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())


def part(page, key):
    """Text of the element with this id, up to the next element of its kind."""
    start = re.search(rf'<(\w+)[^>]*id="{re.escape(key)}"[^>]*>', page)
    rest = page[start.end() :]
    end = re.search(rf"</{start[1]}>", rest)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", rest[: end.start()])).replace("\u00a0", " ").split())


def section(page, key):
    """HTML of the section whose heading has this id."""
    start = page.index('<section class="', page.rindex("<section", 0, page.index(f'id="{key}"')))
    return page[start : page.index("</section>", start)]


def rows(table):
    """Cells of the body of the first table in a piece of HTML, as text."""
    body = table[table.index("<tbody") : table.index("</tbody>")]
    found = []
    for line in re.findall(r"<tr.*?</tr>", body, re.DOTALL):
        cells = re.findall(r"<t[hd].*?</t[hd]>", line, re.DOTALL)
        plain = (html.unescape(re.sub(r"<[^>]*>", " ", cell)).replace("\u00a0", " ") for cell in cells)
        found.append([" ".join(cell.split()) for cell in plain])
    return found


def plain(page):
    """All text of a page whose tags are in order."""
    reader = Reader(page)
    assert not reader.bad, f"tags out of order: {reader.bad}"
    return reader.text


def linear_model():
    """A linear classifier with a guarantee, and the rows that it was fitted on."""
    X, y = screening(1500, 150, seed=7)
    return TauFPLClassifier(0.02, threshold="np", reg=0.01, tau_scale=4.0, random_state=0).fit(X, y)
