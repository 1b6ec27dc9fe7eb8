#!/usr/bin/env python3
"""Positive control: many simulated studies through the whole path (run, freeze, intervene, attribute) with
builtin:synthetic, whose value function is known. Seeds are 1 to N, declared here and not chosen.

    bench/positive_control.py [--studies 100] [--program build/release/bin/loopscope]

Prints, per component, in how many studies the interval of the Shapley value (metric pass, pooled, target random) covers the
truth, in how many it excludes 0, and the mean width against that of an oracle which knows the variance. Exit status 1
when a requirement is missed: coverage at least 90 %, the true effects detected in at least 80 %, the width at most 1.3
times the oracle's. Requirements are scaled by binomial slack for fewer than 100 studies.
"""
import argparse
import concurrent.futures
import itertools
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TASK = ROOT / "tests/tasks/synthetic"
CONTEXTS, ROLLOUTS, TRIALS = 20, 2, 3


def probability(truth, coalition, effect):
    """success_probability() of src/record/truth.h, written anew from its formula."""
    level = truth["context"]["level"] * effect
    total = 0.0
    for dividend in truth["pass"]:
        members = set(dividend["players"])
        if not members:
            total += dividend["effect"]
        elif members <= coalition:
            total += dividend["effect"] * (1 + truth["context"]["relative"] * effect)
    return min(1.0, max(0.0, total + level))


def shapley_weights(players, player):
    """Coefficient of v(S) in the Shapley value of `player`."""
    n = len(players)
    weights = {}
    for size in range(n + 1):
        for members in itertools.combinations(players, size):
            inside = player in members
            others = size - 1 if inside else size
            weight = math.factorial(others) * math.factorial(n - 1 - others) / math.factorial(n)
            weights[frozenset(members)] = weight if inside else -weight
    return weights


def truth_and_oracle(truth, player):
    """The true Shapley value, and the half-width of an interval by someone who knows the variance of z."""
    weights = shapley_weights(truth["players"], player)
    mean = second = noise = 0.0
    for effect, share in zip(truth["context"]["support"], truth["context"]["weights"]):
        z = 0.0
        variance = 0.0
        for coalition, weight in weights.items():
            p = probability(truth, coalition, effect)
            half = min(truth["plan_spread"], p, 1 - p)
            within = sum(q * (1 - q) for q in (p - half, p + half)) / 2
            z += weight * p
            variance += weight**2 * (half**2 + within / TRIALS) / ROLLOUTS
        mean += share * z
        second += share * z * z
        noise += share * variance
    sd = math.sqrt(second - mean**2 + noise)
    return mean, 1.959964 * sd / math.sqrt(CONTEXTS)


def study(program, seed):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="loopscope_control_"))
    try:
        shutil.copytree(TASK, folder / "task")
        (folder / "task/starts/origin.txt").write_text(f"state {seed:012d}\noutcome pass\ngain 0.0000\n")
        model = f"builtin:synthetic,file={TASK / 'truth.json'}"

        def loopscope(*words):
            done = subprocess.run([program, words[0], "--journal", str(folder / "j.db"), "--seed", str(seed), "--json", "--quiet",
                                   *map(str, words[1:])], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"seed {seed}, {words}: {done.stderr}")
            return json.loads(done.stdout)

        run = loopscope("run", folder / "task", "--model", model, "--mode", "none", "--steps", 32, "--population", 1,
                        "--repair-probability", 0)["study"]
        trajectory = loopscope("freeze", run, "--max-contexts", CONTEXTS)
        if len(trajectory["contexts"]) != CONTEXTS:
            raise RuntimeError(f"seed {seed}: {len(trajectory['contexts'])} contexts")
        made = loopscope("intervene", trajectory["id"], "--model", model, "--rollouts", ROLLOUTS, "--trials", TRIALS)
        attribution = loopscope("attribute", made["study"], "--target", "random")
        return pooled_shapley(attribution)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pooled_shapley(attribution):
    for game in attribution["games"]:
        if game["metric"] == "pass" and game["generation"] in (None, -1) and not game["stratum"]:
            estimates = {}
            for index in game["shapley"]:
                (name,) = index["players"]
                estimates[name] = index
            return estimates
    raise RuntimeError("no pooled game on pass")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/loopscope"))
    options = parser.parse_args()
    truth = json.loads((TASK / "truth.json").read_text())
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(lambda seed: study(options.program, seed), range(1, options.studies + 1)))
    n = len(results)
    slack = 0.0 if n >= 100 else 3 * math.sqrt(0.9 * 0.1 / n)
    missed = []
    print(f"{n} studies, {CONTEXTS} contexts, {ROLLOUTS} rollouts, {TRIALS} trials; seeds 1 to {n}")
    for player in truth["players"]:
        value, oracle = truth_and_oracle(truth, player)
        covered = sum(r[player]["low"] <= value <= r[player]["high"] for r in results)
        excluded = sum(not r[player]["low"] <= 0 <= r[player]["high"] for r in results)
        width = sum(r[player]["high"] - r[player]["low"] for r in results) / n
        ratio = width / (2 * oracle)
        print(f"{player:8} truth {value:+.4f}: covered in {covered} of {n}, excludes 0 in {excluded} of {n}, "
              f"mean width {width:.3f} = {ratio:.3f} of the oracle's")
        if covered < (0.90 - slack) * n:
            missed.append(f"coverage of {player}")
        if abs(value) > 1e-12 and excluded < (0.80 - slack) * n:
            missed.append(f"detection of {player}")
        if ratio > 1.3 + slack:
            missed.append(f"width of {player}")
    if missed:
        print("missed: " + ", ".join(missed))
        sys.exit(1)
    print("all requirements are met")


if __name__ == "__main__":
    main()
