"""The seed and the time limits of the Python tests. They must equal those of the C++ tests."""

import contextlib
import io
import os
import pathlib
import re
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support/python"))

import janus_test  # noqa: E402


class SeedTest(unittest.TestCase):
    def seed(self, **environment):
        with mock.patch.dict(os.environ, environment), contextlib.redirect_stderr(io.StringIO()) as said:
            if not environment:
                os.environ.pop("JANUS_SEED", None)
            return janus_test.draw_seed(), said.getvalue()

    def test_without_one_it_is_that_of_the_tests_in_cpp(self):
        text = (ROOT / "tests/support/random.h").read_text()
        default = int(re.search(r"kDefaultSeed = ([\d']+);", text)[1].replace("'", ""))
        self.assertEqual(self.seed(), (default, f"JANUS_SEED={default}\n"))

    def test_a_given_one_is_taken_and_said(self):
        self.assertEqual(self.seed(JANUS_SEED="42"), (42, "JANUS_SEED=42\n"))


class TimeScaleTest(unittest.TestCase):
    def test_is_ten_where_the_machine_is_slow_and_else_one(self):
        for environment, scale in (({}, 1), ({"CI": ""}, 1), ({"CI": "true"}, 10), ({"JANUS_SANITIZE": "thread"}, 10),
                                   ({"JANUS_SANITIZE": ""}, 1)):
            self.assertEqual(janus_test.time_scale(environment), scale, environment)

    def test_is_what_is_given_whatever_the_machine(self):
        self.assertEqual(janus_test.time_scale({"CI": "true", "JANUS_TIME_SCALE": "2.5"}), 2.5)

    def test_refuses_what_is_no_positive_number(self):
        for bad in ("", "0", "-1", "x", "nan", "inf"):
            with self.assertRaisesRegex(SystemExit, "is not a positive number"):
                janus_test.time_scale({"JANUS_TIME_SCALE": bad})

    def test_scales_a_limit(self):
        with mock.patch.dict(os.environ, JANUS_TIME_SCALE="3"):
            self.assertEqual(janus_test.scaled(0.5), 1.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
