"""Photograph the report of docs/report.md for README and the site: `python docs/figures/shoot_report.py`.

It needs Chromium. The rows and the fit are those of the first example on that page.
"""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# From the top of the page to the end of the ROC curve.
SIZE = (1060, 1365)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-sync",
         "--disable-background-networking", "--disable-component-update")  # fmt: skip


def main() -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("Chromium is needed to take a picture of the report, and there is none on this machine.")
    page = (HERE.parent / "report.md").read_text(encoding="utf-8")
    names: dict[str, Path] = {}
    for example in doctest.DocTestParser().get_examples(page.partition("![")[0]):
        exec(compile(example.source, "report.md", "exec"), names)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        size, output = ",".join(map(str, SIZE)), HERE / "report.png"
        own = (f"--user-data-dir={profile}", f"--window-size={size}", f"--screenshot={output}")
        subprocess.run([browser, *FLAGS, *own, names["path"].as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
