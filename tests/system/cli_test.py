"""Bad input gets one clear error that names the place and the mend; the good paths of the small verbs."""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import unittest

from harness import LOOPSCOPE, ROOT, Case, task, workload


class BadInput(Case):
    def copy_of(self, name, source=workload):
        copy = self.folder / name
        shutil.copytree(source(name), copy)
        return copy

    def change(self, folder, old, new, file="task.toml"):
        path = folder / file
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1))

    def test_an_unknown_key_names_its_line_and_the_nearest(self):
        copy = self.copy_of("matmul")
        self.change(copy, "baseline =", "basline =")
        self.one_error("eval", copy, contains=["task.toml:", "basline", "baseline"])

    def test_a_missing_file(self):
        copy = self.copy_of("matmul")
        (copy / "reference.cc").unlink()
        self.one_error("eval", copy, contains="reference.cc")
        self.one_error("eval", self.folder / "nowhere", contains="nowhere")
        self.one_error("eval", workload("matmul"), self.folder / "no.cc", contains="no.cc")

    def test_a_negative_size(self):
        copy = self.copy_of("matmul")
        self.change(copy, "{ n = 17 }", "{ n = -17 }")
        self.one_error("eval", copy, contains=["task.toml:", "-17"])

    def test_a_kernel_whose_signature_differs(self):
        copy = self.copy_of("matmul")
        self.change(copy, 'name = "b"\ntype = "f32[n][n]"', 'name = "b"\ntype = "f64[n][n]"')
        self.one_error("eval", copy, contains=["matmul", "double"])

    def test_an_unknown_start_or_component(self):
        self.one_error("eval", workload("matmul"), "--start", "naiv", contains=["naiv", "did you mean 'naive'"])
        self.one_error("run", workload("matmul"), "--components", "debuger", contains=["debuger", "debugger"])

    def test_options(self):
        for words in (["run"], ["nonsense"], ["run", str(workload("matmul")), "--steps", "-3"],
                      ["run", str(workload("matmul")), "--mode", "loud"], ["report", "r1", "--format", "pdf"]):
            done = subprocess.run([LOOPSCOPE, *words], capture_output=True, text=True, cwd=self.folder, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertTrue(done.stderr.strip())

    def test_models(self):
        arith = task("arith")
        self.one_error("run", arith, "--model", "opnai:x", contains=["opnai", "openai"])
        self.one_error("run", arith, "--model", "builtin:rules,tempreature=1", contains="tempreature")
        self.one_error("run", arith, "--model", "openai:gpt-4o-mini", environment={"OPENAI_API_KEY": ""},
                       contains="OPENAI_API_KEY")
        self.one_error("run", arith, "--model", "replay:nothing.db", contains="nothing.db")

    def test_studies_that_are_not_there(self):
        self.run_loopscope("run", task("arith"), "--mode", "none", "--model", "command:/bin/echo 5", "--steps", "1")
        for verb in ("report", "freeze", "intervene", "attribute"):
            self.one_error(verb, "r999", contains="r999")

    def test_a_read_only_journal(self):
        if os.geteuid() == 0:
            self.skipTest("root may write any file; the journal's unit tests cover it on a read-only file system")
        self.journal.touch()
        self.journal.chmod(0o444)
        self.one_error("run", task("arith"), "--model", "command:/bin/echo 5", contains=str(self.journal), expect=1)

    def test_a_journal_of_a_newer_version(self):
        self.run_loopscope("run", task("arith"), "--mode", "none", "--model", "command:/bin/echo 5", "--steps", "1")
        with sqlite3.connect(self.journal) as database:
            database.execute("PRAGMA user_version = 999")
        self.one_error("run", task("arith"), "--model", "command:/bin/echo 5", contains=["999", "newer"], expect=1)

    def test_a_file_that_is_no_journal(self):
        self.journal.write_text("this is no database, but long enough to be looked at" * 20)
        self.one_error("run", task("arith"), "--model", "command:/bin/echo 5", contains="test.db", expect=1)

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(disk)], check=False,
                                 capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("mounting a small disk is not permitted here")
        self.addCleanup(subprocess.run, ["umount", str(disk)], check=False)
        model = "command:/bin/sh -c 'head -c 30000 /dev/urandom | base64'"
        self.one_error("run", task("arith"), "--mode", "none", "--model", model, "--steps", 60, journal=disk / "full.db",
                       contains="full", expect=1)
        # What is there is still a sound journal.
        self.assertEqual(self.json_of("journal", "--verify", journal=disk / "full.db")["faults"], [])

    def test_values(self):
        table = self.folder / "values.json"
        table.write_text('{"players": ["a", "b"], "values": [0, 1, 2]}')
        self.one_error("attribute", "--values", table, contains="values")
        self.one_error("attribute", contains="--values")
        table.write_text('{"players": ["a", "b"], "values": [0, 1, 2, 4]}')
        shapley = self.json_of("attribute", "--values", table)["indices"]["shapley"]
        self.assertEqual([one["value"] for one in shapley], [1.5, 2.5])


class Verbs(Case):
    def test_help_and_version(self):
        done = subprocess.run([LOOPSCOPE, "--help"], capture_output=True, text=True, check=True)
        for verb in ("init", "eval", "feedback", "run", "freeze", "intervene", "attribute", "report", "journal", "models",
                     "tasks", "doctor"):
            self.assertIn(f"  {verb} ", done.stdout)
            text = subprocess.run([LOOPSCOPE, verb, "--help"], capture_output=True, text=True, check=True).stdout
            self.assertIn("--journal", text)
        self.assertEqual(subprocess.run([LOOPSCOPE, "--version"], capture_output=True, text=True, check=True).stdout,
                         "loopscope 0.1.0\n")

    def test_doctor_and_models_and_tasks(self):
        doctor = self.json_of("doctor")
        self.assertTrue(doctor["sound"], doctor)
        self.assertTrue(doctor["sandbox"]["works"])
        models = self.json_of("models")
        self.assertTrue(all(line["date"] for line in models["prices"]))
        tasks = self.json_of("tasks", ROOT / "workloads")["tasks"]
        self.assertEqual([one["name"] for one in tasks], ["jacobi2d", "matmul", "nbody", "spmv"])
        self.assertFalse([one for one in tasks if "error" in one])
        for one in tasks:
            self.assertTrue(any(start["expect"] in ("fail", "compile") for start in one["starts"]), "a broken start")

    def test_a_first_kernel_of_ones_own(self):
        source = self.folder / "axpy.cc"
        source.write_text('extern "C" void axpy(int n, float alpha, const float* x, float* y) {\n'
                          "    for (int i = 0; i < n; ++i)\n        y[i] = alpha * x[i];\n}\n")
        made = self.json_of("init", source, "--function", "axpy")
        self.assertTrue(made["to_fill_in"])
        self.one_error("init", source, "--function", "axpy", contains="exists already")
        self.one_error("init", source, "--function", "axpby", contains=["axpby"], expect=2)
        done = self.run_loopscope("eval", self.folder / "axpy", expect=None)
        self.assertIn(done.returncode, (0, 2), done.stderr)
        if done.returncode == 2:   # something has to be filled in first: it says what and where
            self.assertIn("task.toml", done.stderr)
        else:
            self.assertIn("pass", done.stdout)

    def test_every_start_is_what_its_author_intended(self):
        for folder in sorted((ROOT / "workloads").iterdir()):
            result = self.json_of("eval", folder, "--start", "all")
            for candidate in result["candidates"]:
                self.assertEqual(candidate["as_expected"], 1, (folder.name, candidate["candidate"], candidate["verdicts"]))
        for name in ("fir", "arith", "synthetic"):
            result = self.json_of("eval", task(name), "--start", "all")
            for candidate in result["candidates"]:
                self.assertIn(candidate["as_expected"], (1, None), (name, candidate["candidate"], candidate["verdicts"]))

    def test_feedback_names_the_line_at_fault(self):
        said = self.json_of("feedback", workload("matmul"), "--start", "broken_bound", "--component", "debugger")
        self.assertIn("AddressSanitizer", said["feedback"]["debugger"]["text"])
        self.assertIn("matmul.cc:", said["feedback"]["debugger"]["text"])

    def test_a_key_is_nowhere(self):
        key = "sk-test-0123456789abcdef"
        done = self.run_loopscope("run", task("arith"), "--steps", 1, "--mode", "none", "--model",
                                  "openai:some-model,base=http://127.0.0.1:9/v1,attempts=1", expect=None,
                                  environment={"OPENAI_API_KEY": key})
        self.assertNotIn(key, done.stdout + done.stderr)
        for file in self.folder.rglob("*"):
            if file.is_file():
                self.assertNotIn(key.encode(), file.read_bytes(), file)


if __name__ == "__main__":
    unittest.main()
