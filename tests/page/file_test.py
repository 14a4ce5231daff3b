#!/usr/bin/env python3
"""The page is one small file that asks no other server, and a program can embed it."""

import os
import re
import sys
import unittest

import served_page

sys.path.insert(0, str(served_page.PAGE.parent))

import seal  # noqa: E402

TEXT = served_page.PAGE.read_text()
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


class PageFile(unittest.TestCase):
    def test_no_address_of_another_server(self):
        left = TEXT.replace(f'"{SVG_NAMESPACE}"', "")
        self.assertEqual(re.findall(r"""\b(?:https?|wss?|ftp):|["'(]//(?=\w)""", left), [])

    def test_no_resource_beside_the_file(self):
        self.assertEqual(re.findall(r"<(?:script|img|iframe|object|embed|source)\b[^>]*>", TEXT), ["<script>"])
        self.assertEqual(re.findall(r"""<link [^>]*href="([^"]*)""", TEXT), ["data:,"])
        self.assertNotRegex(TEXT, r"@import|url\(")

    def test_below_150_kb(self):
        self.assertLess(os.path.getsize(served_page.PAGE), 150_000)

    def test_data_is_never_parsed_as_html(self):
        self.assertNotRegex(TEXT, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function")

    def test_policy_has_the_hashes_of_style_and_script(self):
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', TEXT)[1]
        self.assertIn("default-src 'none'", policy)
        self.assertIn("connect-src 'self'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(seal.sealed(TEXT), TEXT, "run operator/page/seal.py after an edit")

    def test_cmake_and_a_raw_string_keep_it_as_it_is(self):
        self.assertEqual(re.findall(r"@[A-Za-z0-9_./+-]+@", TEXT), [])
        self.assertNotIn(')page"', TEXT)


if __name__ == "__main__":
    unittest.main()
