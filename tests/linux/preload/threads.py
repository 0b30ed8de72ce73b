#!/usr/bin/python3
"""CPU time of threads that pthread_create() did not start, under `edgeprof run`: of those whose start is seen, by function; of others, in
the sum. Levels high and low. 300 and 1,000 threads at once are all sampled, although the collect thread competes with them.

usage: threads.py EDGEPROF PROGRAM"""
import re
import subprocess
import sys

from kit import fail

edgeprof, program = sys.argv[1:3]
BY_FUNCTION = {"c11": 90, "timer": 80, "names": 80, "queue": 80, "list": 80, "clone": 80}


def percent(name, text):
    found = re.search(rf"^ *[\d.]+% +\S+ +([\d.]+)% +\S+ +{re.escape(name)}", text, re.M)
    return float(found[1]) if found else 0.0


def check(how, level):
    done = subprocess.run([edgeprof, "run", "--level", level, "--kind", "cpu", "-n", "50", "--", program, how], capture_output=True, text=True, timeout=60)
    hot, short = percent("thread_hot", done.stdout), percent("[short processes]", done.stdout)
    if done.returncode or short > 3:  # 98: the sum is wrong
        fail(f"{how}, {level}: exit code {done.returncode}, {short} % of the CPU time is [short processes]\n{done.stdout}{done.stderr}")
    least = BY_FUNCTION.get(how, 0) - (20 if level == "low" else 0)  # at low 50 samples, and a short thread may have none
    if hot < least:
        fail(f"{how}, {level}: thread_hot has {hot} %\n{done.stdout}{done.stderr}")
    print(f"  {how}, {level}: {hot:.1f} % by function")


def check_crowd(threads):
    done = subprocess.run([edgeprof, "run", "--level", "high", "--kind", "cpu", "-n", "100", "--", program, str(threads)], capture_output=True, text=True, timeout=300)
    # A thread's time after its last tick has no function: 20 ms are 5 ticks, and fewer where processors are missing.
    hot = 100 * percent("thread_hot", done.stdout) / (100 - percent("[thread exit]", done.stdout))
    if done.returncode or hot < 95 or "[lost" in done.stdout or "[unsampled" in done.stdout or "threads" in done.stderr:
        fail(f"{threads} threads: exit code {done.returncode}, thread_hot {hot:.1f} % of the samples\n{done.stdout}{done.stderr}")
    print(f"  {threads} threads: {hot:.1f} % of the samples by function")


for way in (*BY_FUNCTION, "raw"):
    check(way, "high")
check("c11", "low")
check_crowd(300)
check_crowd(1000)
