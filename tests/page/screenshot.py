#!/usr/bin/env python3
"""Draws the page with the made recording: tests/page/screenshot.py [FILE [WIDTH HEIGHT [dark]]]

Without arguments it draws docs/images/page.png. It needs Chromium (scripts/deps browser).
"""

import pathlib
import sys

import browser
import served_page
import small_png

DEFAULT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "images" / "page.png"


def main(path=DEFAULT, width=1280, height=900, scheme="light"):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with served_page.ServedPage() as served, browser.Browser() as page:
        page.size(int(width), int(height), scheme == "dark")
        page.open(served.url)
        page.wait("document.querySelectorAll('.mark').length > 0", "the page shows the recording")
        page.run("document.querySelectorAll('.mark')[2].click()")
        page.run("document.activeElement.blur()")
        page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        pathlib.Path(path).write_bytes(small_png.with_palette(page.picture()))
        for problem in page.problems:
            print(problem, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
