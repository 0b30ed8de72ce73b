#!/usr/bin/python3
"""Small programs of other language runtimes end and write as without edgeprof, which is preloaded.

usage: runtimes.py PRELOAD WORK"""
import os
import pathlib
import shutil
import subprocess
import sys

PRELOAD, WORK = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).absolute()
PATIENCE = 120  # s; a program that hangs never ends

PYTHON = {
    "threads": "import sys, threading\ndef f(n):\n    s = 0\n    for i in range(n): s += i\n    sys.stdout.write(str(s) + chr(10))\nt = [threading.Thread(target=f, args=(3000000,)) for _ in range(3)]\n[x.start() for x in t]\n[x.join() for x in t]",
    "processes": "import multiprocessing\ndef f(n):\n    return sum(range(n))\nif __name__ == '__main__':\n    with multiprocessing.get_context('fork').Pool(2) as p: print(p.map(f, [2000000, 3000000]))",
    "signals": "import signal, time\nn = [0]\ndef h(*a): n[0] += 1\nfor s in range(1, 65):\n    try: signal.signal(s, h)\n    except (OSError, ValueError): pass\nsignal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nsignal.setitimer(signal.ITIMER_REAL, 0)\nprint(n[0] > 5)",
    "subprocesses": "import subprocess, sys\nsum(range(3000000))\nprint(subprocess.run([sys.executable, '-c', 'print(sum(range(3000000)))'], close_fds=True, capture_output=True, text=True).stdout)\nsys.exit(7)",
    "exit": "import os, threading\nthreading.Thread(target=lambda: sum(range(100000000)), daemon=True).start()\nsum(range(3000000))\nos._exit(9)",
}
NODE = {
    "workers": "const {Worker, isMainThread} = require('worker_threads'); if (isMainThread) { for (let i = 0; i < 3; i++) new Worker(__filename).on('exit', c => console.log('ended', c)); } else { let s = 0; for (let i = 0; i < 5e7; i++) s += i; }",
    "children": "const {execFileSync} = require('child_process'); let s = 0; for (let i = 0; i < 5e7; i++) s += i; console.log(execFileSync(process.execPath, ['-e', 'let s = 0; for (let i = 0; i < 5e7; i++) s += i; console.log(s)']).toString());",
    "timers": "let n = 0; const t = setInterval(() => { if (++n === 20) { clearInterval(t); console.log(n); process.exit(6); } for (let i = 0; i < 1e6; i++); }, 10);",
    "promises": "(async () => { let s = 0; for (let i = 0; i < 300000; i++) s += await i; console.log(s); })();",
    "abort": "let s = 0; for (let i = 0; i < 5e7; i++) s += i; process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 10000);",
}
JAVA = """import java.util.*;
public class Main {
    static int depth(int n) { return depth(n + 1) + 1; }
    public static void main(String[] a) throws Exception {
        if (a[0].equals("threads")) {
            Thread[] t = new Thread[4];
            for (int i = 0; i < 4; i++) { t[i] = new Thread(() -> { long s = 0; for (int k = 0; k < 200000000; k++) s += k; System.out.println(s); }); t[i].start(); }
            for (Thread x : t) x.join();
        } else if (a[0].equals("garbage")) {
            List<byte[]> l = new ArrayList<>(); long n = 0;
            for (int i = 0; i < 200000; i++) { l.add(new byte[1000]); if (l.size() > 5000) l.clear(); n++; }
            System.out.println(n);
        } else if (a[0].equals("overflow")) {
            int n = 0;
            for (int i = 0; i < 20; i++) try { depth(0); } catch (StackOverflowError e) { n++; }
            System.out.println(n);
        } else if (a[0].equals("faults")) {
            int n = 0; int[] x = null;
            for (int i = 0; i < 200000; i++) try { n += x[i]; } catch (NullPointerException e) { n++; }
            System.out.println(n);
        } else { System.exit(new ProcessBuilder("sh", "-c", "exit 8").start().waitFor()); }
    }
}
"""
GO = """package main
import ("fmt"; "os"; "os/exec"; "os/signal"; "runtime"; "sync"; "syscall")
func deep(n int) int { var b [256]byte; b[n%256] = 1; if n == 0 { return int(b[0]) }; return deep(n-1) + int(b[1]) }
func main() {
    switch os.Args[1] {
    case "routines":
        var w sync.WaitGroup; var m sync.Mutex; t := 0
        for i := 0; i < 200; i++ { w.Add(1); go func() { defer w.Done(); s := 0; for k := 0; k < 3000000; k++ { s += k }; m.Lock(); t += s & 1; m.Unlock() }() }
        w.Wait(); fmt.Println(t)
    case "stacks":
        var w sync.WaitGroup
        for i := 0; i < 50; i++ { w.Add(1); go func() { defer w.Done(); for k := 0; k < 30; k++ { deep(5000) } }() }
        w.Wait(); fmt.Println("done")
    case "signals":
        c := make(chan os.Signal, 100); signal.Notify(c); syscall.Kill(os.Getpid(), syscall.SIGHUP)
        for s := range c { if s == syscall.SIGHUP { fmt.Println(s); break } }
        for i := 0; i < 200000000; i++ {}
    case "children":
        for i := 0; i < 200000000; i++ {}
        out, err := exec.Command("sh", "-c", "echo child").Output(); fmt.Println(string(out), err)
    default:
        for i := 0; i < 50; i++ { runtime.GC() }
        os.Exit(8)
    }
}
"""


def run(command, preload):
    env = {**os.environ, "GOTRACEBACK": "all"}
    if preload:
        env |= {"LD_PRELOAD": PRELOAD, "EDGEPROF_ENDPOINT": f"file://{WORK}/out", "EDGEPROF_LEVEL": "high", "EDGEPROF_INTERVAL": "1000"}
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, env=env, cwd=WORK)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return "still there", b"", b""


def scripts(program, forms, suffix):
    for name, text in forms.items():
        path = WORK / f"{name}{suffix}"
        path.write_text(text)
        yield f"{os.path.basename(program)}/{name}", [program, str(path)]


def java():
    (WORK / "Main.java").write_text(JAVA)
    if shutil.which("java") and shutil.which("javac") and subprocess.run(["javac", "-d", WORK, WORK / "Main.java"], capture_output=True).returncode == 0:
        for name in ("threads", "garbage", "overflow", "faults", "children"):
            yield f"java/{name}", ["java", "-Xmx128m", "-cp", str(WORK), "Main", name]


def go():
    (WORK / "main.go").write_text(GO)
    env = {**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    if not shutil.which("go"):
        return
    for way, flags in {"go": ["-ldflags", "-linkmode=external"], "go-static": []}.items():
        if subprocess.run(["go", "build", "-o", WORK / way, *flags, "main.go"], cwd=WORK, env=env, capture_output=True).returncode == 0:
            for name in ("routines", "stacks", "signals", "children", "garbage"):
                yield f"{way}/{name}", [str(WORK / way), name]


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    forms = dict(scripts("/usr/bin/python3", PYTHON, ".py"))
    if shutil.which("node"):
        forms |= dict(scripts(shutil.which("node"), NODE, ".js"))
    forms |= {**dict(java()), **dict(go())}
    wrong = 0
    for name, command in forms.items():
        bare, with_it = run(command, False), run(command, True)
        if bare[:2] != with_it[:2]:
            wrong += 1
            print(f"runtimes: {name}: {with_it[:2]}, without edgeprof {bare[:2]}\n    {with_it[2][-400:].decode(errors='replace')}", file=sys.stderr, flush=True)
    if not wrong:
        print(f"runtimes: {len(forms)} programs end as without edgeprof: {', '.join(sorted({name.split('/')[0] for name in forms}))}")
    sys.exit(1 if wrong else 0)


main()
