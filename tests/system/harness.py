"""Drives the built program as a user would. LOOPSCOPE names it (default: build/dev/bin/loopscope)."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOOPSCOPE = os.environ.get("LOOPSCOPE", str(ROOT / "build/dev/bin/loopscope"))


class Case(unittest.TestCase):
    """A test in a folder of its own that is gone afterwards."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="loopscope_test_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.journal = self.folder / "test.db"

    def command(self, *words, journal=None):
        return [LOOPSCOPE, words[0], "--journal", str(journal or self.journal), *map(str, words[1:])]

    def run_loopscope(self, *words, expect=0, journal=None, environment=None, timeout=300):
        """Runs it and returns the finished process; fails unless it ends with `expect` (None: any end)."""
        done = subprocess.run(self.command(*words, journal=journal), capture_output=True, text=True, cwd=self.folder,
                              timeout=timeout, env={**os.environ, **(environment or {})}, check=False)
        if expect is not None:
            self.assertEqual(done.returncode, expect, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def json_of(self, *words, **options):
        return json.loads(self.run_loopscope(*words, "--json", **options).stdout)

    def one_error(self, *words, contains, expect=2, **options):
        """Bad input: one line on stderr that names the place and the mend."""
        done = self.run_loopscope(*words, expect=expect, **options)
        lines = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in [contains] if isinstance(contains, str) else contains:
            self.assertIn(part, done.stderr)
        self.assertEqual(done.stdout, "")
        return lines[0]


def task(name):
    return ROOT / "tests/tasks" / name


def workload(name):
    return ROOT / "workloads" / name
