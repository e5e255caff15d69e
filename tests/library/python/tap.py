# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a module's unittests, and prints their results as TAP."""
import argparse
import fnmatch
import sys
import traceback
import unittest


class Tap(unittest.TestResult):
    """Prints the results as TAP."""

    def _line(self, good, test, more=""):
        print(f"{'ok' if good else 'not ok'} {self.testsRun} - "
              f"{test.id().split('.', 1)[1]}{more}", flush=True)

    def addSuccess(self, test):
        self._line(True, test)

    def addSkip(self, test, reason):
        self._line(True, test, f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        for line in "".join(traceback.format_exception(*err)).splitlines():
            print(f"# {line}")
        self._line(False, test)
        print(f"# repeat: {sys.argv[0]} -k {test.id().split('.', 1)[1]}")

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            print(f"# {subtest}")
            print("# " + "".join(traceback.format_exception(*err))
                  .replace("\n", "\n# "))
            self._line(False, test)


def main(module):
    """All tests of a module, or those that -k names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-k", default="*")
    pattern = parser.parse_args().k
    chosen = []
    for group in unittest.defaultTestLoader.loadTestsFromModule(
            sys.modules[module]):
        chosen += [test for test in group
                   if fnmatch.fnmatch(test.id().split(".", 1)[1], pattern)]
    print(f"1..{len(chosen)}")
    result = Tap()
    unittest.TestSuite(chosen).run(result)
    sys.exit(not result.wasSuccessful())
