"""CPU time of a whole server for each pprof of a foreign client (store_pprof.c): HTTP, decoding, storing, syncing, merging. Prints figures.
Usage: ingest_pprof.py EDGEPROF STORE_PPROF [COUNT]"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "host"))
from harness import Server

WARM = 500  # profiles until most stacks are known


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(program, sender, count, *options):
    with tempfile.TemporaryDirectory(prefix="edgeprof-bench-") as folder, Server(program, os.path.join(folder, "pprof.db")) as server:
        subprocess.run([sender, "send", str(server.port), str(WARM)], check=True)
        before = cpu_seconds(server.process.pid)
        subprocess.run([sender, "send", str(server.port), str(count), *options], check=True)
        return (cpu_seconds(server.process.pid) - before) * 1000 / count


def main():
    program, sender, count = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3] if len(sys.argv) > 3 else 5000)
    print(f"figure ingest_pprof_cpu_ms {measure(program, sender, count):.3f} ms")
    print(f"figure ingest_pprof_gzip_cpu_ms {measure(program, sender, count, '-z'):.3f} ms")


main()
