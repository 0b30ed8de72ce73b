#!/usr/bin/python3
"""Runs tests of CPython's own and writes a line for each, as soon as it has ended: its outcome and its name.

usage: python_tests.py OUT MODULE|TEST..."""
import sys
import unittest
import warnings


class Recorder(unittest.TextTestResult):
    out = None

    def line(self, outcome, test):
        print(outcome, test.id().replace("\n", " "), file=self.out, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.line("started", test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line("passed", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.line("failed", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line("failed", test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.line("failed", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line("skipped", test)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.line("passed", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.line("failed", test)


if __name__ == "__main__":
    from test import support
    support.use_resources = []  # as `python3 -m test` has it: no network, nothing that only takes long
    with open(sys.argv[1], "w") as Recorder.out:
        tests = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:])
        warnings.simplefilter("default")
        done = unittest.TextTestRunner(resultclass=Recorder, verbosity=0).run(tests)
    sys.exit(not done.wasSuccessful())
