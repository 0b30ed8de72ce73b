#!/usr/bin/python3
"""How many requests recorded at Pyroscope get the same answers from `edgeprof serve`.

usage: answers.py EDGEPROF WORK [RECORDING]
A recording has `pushes` and then `requests` with their answers, as tests/host/recorded/pyroscope-2.0.6.json. The numbers of
the requests whose answers differ go to stderr."""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "host"))
from harness import Server
from recordings_test import KEEP, RECORDED, replay

program, work = sys.argv[1], pathlib.Path(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
config = work / "edgeprof.conf"
config.write_text(KEEP)
with Server(program, str(work / "answers.db"), "--config", str(config)) as server:
    differ, count = replay(server, sys.argv[3] if len(sys.argv) > 3 else RECORDED)
print(f"others: {differ}", file=sys.stderr)
print(f"figure pyroscope_answers_same {count - len(differ)} count")
print(f"figure pyroscope_answers {count} count")
