"""A whole study on tasks with deterministic evaluators: run, freeze, intervene, attribute, report, replay, resume."""
import csv
import io
import json
import os
import random
import signal
import subprocess
import time
import unittest

from harness import Case, task

TRUTH = task("synthetic") / "truth.json"
SYNTHETIC = f"builtin:synthetic,file={TRUTH}"


class Study(Case):
    def run_and_freeze(self, steps=14, seed=1):
        run = self.json_of("run", task("synthetic"), "--model", SYNTHETIC, "--steps", steps, "--seed", seed)["study"]
        return run, self.json_of("freeze", run)["id"]

    def test_the_whole_path(self):
        run, trajectory = self.run_and_freeze()
        study = self.json_of("intervene", trajectory, "--model", SYNTHETIC, "--rollouts", 2, "--trials", 2)["study"]
        attribution = self.json_of("attribute", study)
        self.assertEqual(attribution["players"], ["alpha", "beta", "placebo"])
        report = self.json_of("report", study)
        self.assertEqual(report["study"], study)
        self.assertIn("builtin:synthetic", json.dumps(report))
        self.run_loopscope("report", study, "--output", "report.html")
        page = (self.folder / "report.html").read_text()
        self.assertIn("Made with builtin:synthetic", page, "figures of a built-in model are labelled")
        self.assertIn("Content-Security-Policy", page, "the page asks nothing of the network")
        again = self.folder / "again.html"
        self.run_loopscope("report", study, "--output", again)
        self.assertEqual(page, again.read_text(), "a report is a function of the journal")
        lines = self.run_loopscope("report", study, "--csv", "--output", "-").stdout
        self.assertIn("# ", lines)
        rows = list(csv.reader(io.StringIO(self.run_loopscope("attribute", study, "--csv").stdout)))
        self.assertGreater(len(rows), 10)
        comparison = self.json_of("attribute", study, "--compare", "{alpha}", "--with", "{}")
        self.assertEqual({row["metric"] for row in comparison}, {"compile", "pass", "fast", "gain"})
        summary = self.json_of("journal", "--verify", "--calls")
        self.assertEqual(summary["faults"], [])
        self.assertEqual(summary["calls_in_flight_at_a_crash"], 0)
        self.assertEqual({one["id"] for one in summary["studies"]}, {run, study})
        self.assertTrue(all(one["state"] == "done" for one in summary["studies"]))

    def test_the_same_command_asks_nothing_again(self):
        _, trajectory = self.run_and_freeze()
        words = ("intervene", trajectory, "--model", SYNTHETIC, "--rollouts", 1, "--trials", 1)
        first = self.json_of(*words)
        before = self.json_of("journal")["calls_answered"]
        self.assertEqual(self.json_of(*words)["study"], first["study"])
        self.assertEqual(self.json_of("journal")["calls_answered"], before)

    def test_replay_answers_from_a_recorded_journal(self):
        run, trajectory = self.run_and_freeze()
        other = self.folder / "replayed.db"
        replayed = self.json_of("run", task("synthetic"), "--model", f"replay:{self.journal}", "--steps", 14, journal=other)
        self.assertEqual(replayed["study"], run, "the recorded model's id stands in the configuration")
        one = self.json_of("report", run)
        two = self.json_of("report", run, journal=other)
        for report in (one, two):
            report.pop("costs", None), report.pop("ledger", None)
        self.assertEqual(one["candidates"], two["candidates"])
        # Another seed has no recorded answers: it says so, proposal by proposal, and never makes one up.
        done = self.run_loopscope("run", task("synthetic"), "--model", f"replay:{self.journal}", "--steps", 3, "--seed", 99,
                                  "--json", journal=self.folder / "third.db", expect=None)
        self.assertIn("record", done.stderr)

    def test_a_dry_run_spends_nothing(self):
        done = self.run_loopscope("run", task("synthetic"), "--model", SYNTHETIC, "--dry-run")
        self.assertIn("at most", done.stderr)
        self.assertEqual(self.json_of("journal")["calls_answered"], 0)

    def test_ctrl_c_ends_cleanly_and_the_same_command_goes_on(self):
        script = self.folder / "slow.sh"
        script.write_text("cat > /dev/null; sleep 0.2; printf '```text file=policy.txt\\n%s\\n```\\n' $$\n")
        words = self.command("run", task("arith"), "--model", f"command:/bin/sh {script}", "--steps", 40)
        process = subprocess.Popen(words, cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(2.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("run the same command again", err)
        summary = self.json_of("journal")
        self.assertEqual(summary["studies"][0]["state"], "stopped")
        self.assertGreater(summary["calls_answered"], 0)
        self.assertEqual(summary["calls_in_flight_at_a_crash"], 0, "an interrupt is no crash")


# Answers as a function of the request, after a while, and writes down that it was asked.
RECORDER = r"""
import hashlib, json, sys, time
request = sys.stdin.read()
document = json.loads(request)
name = hashlib.sha256((json.dumps(document["messages"], sort_keys=True) + document["draw"]).encode()).hexdigest()
with open(sys.argv[1], "a") as log:
    log.write(name + "\n")
time.sleep(0.02)
if document["role"] == "planner":
    print("1. Go on. " + name[:8])
else:
    print("```text file=policy.txt\n%d\n```" % (int(name[:8], 16) % 1300))
"""


class Killed(Case):
    """kill -9 at random moments: the resumed study is the undisturbed one, and no answered call is repeated."""

    times = int(os.environ.get("LOOPSCOPE_KILLS", "6"))

    def study(self, journal, log):
        script = self.folder / "recorder.py"
        script.write_text(RECORDER)
        model = f"command:python3 {script} {log}"
        run = self.json_of("run", task("arith"), "--model", model, "--mode", "none", "--steps", 8, journal=journal)["study"]
        trajectory = self.json_of("freeze", run, "--max-contexts", 5, journal=journal)["id"]
        return ("intervene", trajectory, "--model", model, "--rollouts", 1, "--trials", 2, "--components",
                "debugger,analyzer", "--width", 4)

    def report(self, study, journal):
        report = self.json_of("report", study, journal=journal)
        for key in ("costs", "ledger", "calls_cut_by_a_crash", "calls_failed", "config"):
            report.pop(key, None)
        return report

    def test_kill_nine(self):
        log = self.folder / "asked.log"
        log.touch()
        quiet = self.folder / "quiet.db"
        words = self.study(quiet, log)
        study = self.json_of(*words, journal=quiet)["study"]
        expected = self.report(study, quiet)
        asked_when_undisturbed = len(log.read_text().splitlines())

        log.write_text("")
        cut = self.folder / "cut.db"
        self.assertEqual(self.study(cut, log), words)
        chance = random.Random(20260527)
        kills = 0
        while kills < self.times:
            process = subprocess.Popen(self.command(*words, journal=cut), cwd=self.folder, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=chance.uniform(0.02, 0.6))
                break   # it was quicker
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
        self.assertGreater(kills, 0)
        self.assertEqual(self.json_of(*words, journal=cut)["study"], study)
        self.assertEqual(self.report(study, cut), expected)
        summary = self.json_of("journal", "--verify", journal=cut)
        self.assertEqual(summary["faults"], [])
        names = log.read_text().splitlines()
        repeated = len(names) - len(set(names))
        self.assertEqual(len(set(names)), asked_when_undisturbed)
        self.assertLessEqual(repeated, summary["calls_in_flight_at_a_crash"],
                             "only calls that were in flight at a kill may have been made again")
        print(f"{kills} kills, {repeated} calls repeated, {summary['calls_in_flight_at_a_crash']} in flight at a kill")


if __name__ == "__main__":
    unittest.main()
