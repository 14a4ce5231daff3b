#!/usr/bin/env python3
"""Writes the hashes of the page's style and script into its content security policy: operator/page/seal.py

Run it after each edit of page.html. Without these hashes a browser runs no script of the page.
"""

import base64
import hashlib
import pathlib
import re

PAGE = pathlib.Path(__file__).with_name("page.html")


def sealed(text):
    """The page with the hashes of what it has."""
    for tag in ("script", "style"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        text = re.sub(rf"{tag}-src 'sha256-[^']*'", f"{tag}-src 'sha256-{digest}'", text, count=1)
    return text


if __name__ == "__main__":
    PAGE.write_text(sealed(PAGE.read_text()))
