"""Runs one suite and records the result of each test: run_suite.py SUITE RESULTS [TEST...]

RESULTS gets a line of JSON for each event when it happens, so that a suite that is killed is recorded, too:
{"planned": [TEST...]}, and then {"test": TEST, "outcome": begun|passed|failed|skipped, "reason": ...}, each with the time
"at" which it was written. Test names are those that the suite accepts: "CrdsTest.test_x", or "CrdsTest" for the setup
before all tests of a class, or the cleanup after them.
"""

import importlib.util
import json
import pathlib
import re
import sys
import time
import unittest


def name_of(test):
    test = getattr(test, "test_case", test)  # if it is a subtest
    of_class = re.fullmatch(r"\w+ \((?:.*\.)?(\w+)\)", test.id())  # setUpClass and its like
    return of_class[1] if of_class else test.id().split(".", 1)[1]


def flattened(tests):
    for one in tests:
        if isinstance(one, unittest.TestSuite):
            yield from flattened(one)
        else:
            yield one


class Result(unittest.TextTestResult):
    book = None  # the file

    @classmethod
    def write(cls, **what):
        cls.book.write(json.dumps({**what, "at": time.time()}) + "\n")
        cls.book.flush()

    def note(self, test, outcome, reason=""):
        self.write(test=name_of(test), outcome=outcome, reason=reason)

    def startTest(self, test):
        super().startTest(test)
        self.note(test, "begun")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if not hasattr(test, "test_case"):
            self.note(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed", str(err[1]))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failed", str(err[1]))

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "failed", "it passed, and was expected not to")


def main():
    path, book, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]
    sys.argv = [str(path)]
    sys.path[0] = str(path.parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    loader = unittest.defaultTestLoader
    tests = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    with open(book, "w", encoding="utf-8") as Result.book:
        Result.write(planned=[name_of(test) for test in flattened(tests)])
        result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(tests)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
