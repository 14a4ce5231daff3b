"""What scripts/lint prose counts in pages and comments, and when it fails."""

import pathlib
import subprocess
import sys
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts" / "checks"))

import prose  # noqa: E402

IDIOMS = ["and nothing else", "is to be had"]
LONG = "word " * 41
FITS = "word " * 40


class CountTest(unittest.TestCase):
    def kinds(self, name, text):
        hits, _ = prose.survey({name: text}, IDIOMS)
        return [(hit.kind, hit.line) for hit in hits]

    def test_a_sentence_of_more_than_forty_words_is_long(self):
        self.assertEqual(self.kinds("page.md", f"Short.\n\n{FITS.strip()}.\n"), [])
        self.assertEqual(self.kinds("page.md", f"Short.\n\n{LONG.strip()}.\n"), [("long_sentences", 3)])

    def test_a_sentence_ends_at_its_mark_a_blank_line_a_heading_a_table_or_the_next_item(self):
        for border in (". ", "\n\n", "\n# A heading\n", "\n| a | b |\n", "\n- ", "\n1. "):
            self.assertEqual(self.kinds("page.md", f"{FITS.strip()}{border}{FITS.strip()}\n"), [], repr(border))
        self.assertEqual(self.kinds("page.md", f"{FITS.strip()}\n{FITS.strip()}\n"), [("long_sentences", 1)])

    def test_a_cell_of_more_than_three_hundred_characters_is_long(self):
        self.assertEqual(self.kinds("page.md", "| a |\n|---|\n| " + "x" * 300 + " | y |\n"), [])
        self.assertEqual(self.kinds("page.md", "| a |\n|---|\n| y | " + "x" * 301 + " |\n"), [("long_cells", 3)])

    def test_people_and_idioms_are_counted_in_pages(self):
        self.assertEqual(self.kinds("page.md", "The peer who waits.\nIt asks nobody for what is to be had.\n"),
                         [("people_in_pages", 1), ("people_in_pages", 2), ("idioms_in_pages", 2)])

    def test_code_quotations_and_link_targets_of_a_page_are_not_prose(self):
        self.assertEqual(self.kinds("page.md", f"```\nwho {LONG}\n```\n> who said it\n\n`who` and [this](page.md#who-may)\n"), [])

    def test_comments_are_counted_and_code_is_not(self):
        self.assertEqual(self.kinds("a.cc", 'int who;  // nobody\nconst char* x = "http://who";\n/* a\n   who */\nchar c = \'"\'; // who\n'),
                         [("people_in_comments", 1), ("people_in_comments", 4), ("people_in_comments", 5)])
        self.assertEqual(self.kinds("a.py", '"""Nobody\nwho"""\nwho = "nobody"  # somebody\n'),
                         [("people_in_comments", 1), ("people_in_comments", 2), ("people_in_comments", 3)])
        self.assertEqual(self.kinds("a.sh", "#!/bin/who\nwho # who\necho ${#who}\n"), [("people_in_comments", 2)])

    def test_words_are_those_of_pages_that_do_not_wait(self):
        texts = {"a.md": "one two\n", "b.md": "three who\n", "c.cc": "// four\n"}
        self.assertEqual(prose.survey(texts, IDIOMS)[1], 4)
        hits, words = prose.survey(texts, IDIOMS, exempt=["b.md"])
        self.assertEqual((hits, words), ([], 2))


class BoundTest(unittest.TestCase):
    def complaints(self, bounds, changed=()):
        hits, words = prose.survey({"a.md": "Who is it?\n", "b.md": "Nobody.\n"}, IDIOMS)
        return "\n".join(prose.complaints(hits, words, bounds, changed))

    def test_a_count_at_its_bound_passes_and_one_above_it_fails_with_its_places(self):
        self.assertEqual(self.complaints({"people_in_pages": 2, "words_in_pages": 4}), "")
        told = self.complaints({"people_in_pages": 1, "words_in_pages": 4})
        self.assertIn("people_in_pages: 2, and .ci/prose.toml allows 1", told)
        self.assertIn("a.md:1:", told)
        self.assertIn("words_in_pages: 4", self.complaints({"words_in_pages": 3}))

    def test_the_files_that_changed_are_shown_alone(self):
        told = self.complaints({"people_in_pages": 1}, changed={"b.md"})
        self.assertIn("b.md:1:", told)
        self.assertNotIn("a.md", told)

    def test_bounds_are_lowered_and_never_raised(self):
        text = "# long_cells = 9\nlong_cells = 9\nlong_sentences = 2\nwords_in_pages = 9\n"
        self.assertEqual(prose.lowered(text, {"long_cells": 4, "long_sentences": 5, "words_in_pages": 3}),
                         "# long_cells = 9\nlong_cells = 4\nlong_sentences = 2\nwords_in_pages = 9\n")


class TreeTest(unittest.TestCase):
    def test_the_configuration_bounds_every_count_and_names_pages_that_exist(self):
        settings = tomllib.loads((ROOT / prose.CONFIG).read_text())
        self.assertEqual(set(settings["bounds"]), {
            "long_sentences", "long_cells", "people_in_pages", "people_in_comments", "idioms_in_pages", "idioms_in_comments",
            "words_in_pages"})
        for page in settings["waiting"]:
            self.assertTrue((ROOT / page).is_file(), page)

    def test_a_page_is_listed_hit_by_hit(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "checks" / "prose.py", "scripts/checks"], check=True,
                              capture_output=True, text=True)
        self.assertIn("people_in_comments", done.stdout)


if __name__ == "__main__":
    unittest.main()
