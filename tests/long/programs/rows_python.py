"""CPython's own tests: what each test says, with edgeprof and without."""
import collections
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
# The long ones first: they sleep most of the time. Of spawn, whose 375 tests are 50 s of CPU time, what starts processes.
SPAWN = [f"test.test_multiprocessing_spawn.{name}" for name in (
    "WithProcessesTestProcess", "WithProcessesTestPool", "WithProcessesTestQueue", "WithProcessesTestLock", "WithProcessesTestEvent",
    "WithProcessesTestConnection", "WithProcessesTestValue", "WithManagerTestPool", "TestSyncManagerTypes", "TestForkAwareThreadLock",
    "TestCloseFds", "TestStdinBadfiledescriptor", "TestResourceTracker", "TestSimpleQueue")]
# Tasks, futures and TLS are computing, 20 s of CPU time of the 30.
ASYNCIO = [f"test.test_asyncio.test_{name}" for name in (
    "subprocess", "events", "taskgroups", "streams", "sendfile", "sock_lowlevel", "base_events", "waitfor", "locks", "timeouts", "runners", "server",
    "context", "selector_events", "unix_events", "queues", "threads", "transports", "protocols", "buffered_proto")]
# What allocates in every way: objects, the interpreter, libraries in C.
OBJECTS = [f"test.test_{name}" for name in (
    "array ast bigmem binascii bool bytes bz2 c_locale_coercion call class code codecs collections compile complex configparser contextlib copy "
    "coroutines crypt csv dataclasses datetime decimal deque descr dict difflib enum enumerate exceptions fileio float format fractions frozen "
    "fstring functools gc generators genericclass getopt gettext glob grammar gzip hash hashlib heapq hmac importlib inspect int iter itertools json "
    "linecache list long lzma marshal math memoryio memoryview minidom mmap module named_expressions numeric_tower opcodes operator optparse ordered_dict "
    "patma pickle pickletools plistlib pprint pyclbr pyexpat queue random range re sax scope set shelve slice sort ssl statistics "
    "strftime string string_literals strptime struct subclassinit symtable syntax sys tarfile tempfile textwrap threading_local tokenize "
    "tracemalloc tuple typechecks types typing unicode unicodedata unpack userdict userlist weakref weakset with xml_etree xml_etree_c "
    "zipfile zipimport zlib").split()]
PARTS = {"multiprocessing_spawn": SPAWN, "asyncio": ASYNCIO, "objects": OBJECTS}
TESTS = {"multiprocessing_fork": 240, "multiprocessing_forkserver": 240, "asyncio": 160, "multiprocessing_spawn": 240, "signal": 120, "io": 100,
         "subprocess": 100, "faulthandler": 80, "selectors": 60, "threading": 60, "eintr": 60, "fork1": 40, "queue": 60, "json": 60, "time": 30, "posix": 30, "ctypes": 30}


def outcomes(path):
    """{test: outcome}; what has begun and not ended: died."""
    found = {}
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        outcome, _, test = line.partition(" ")
        if found.get(test) != "failed":
            found[test] = "died" if outcome == "started" else outcome
    return found


def last_words(err):
    """The last lines that are not unittest's sum, if the program did not come to its end."""
    lines = [line for line in err.strip().splitlines() if line.strip("-=") and not line.startswith("Ran ")]
    return " / ".join(lines[-3:])


def tests_of(name, seconds=None):
    def row(run, only=()):
        modules = list(only) or PARTS.get(name, [f"test.test_{name}"])
        results = run.work / "results"
        status, _, err = run.program(["/usr/bin/python3", FOLDER / "python_tests.py", results, *modules])
        found = outcomes(results)
        counted = collections.Counter(found.values())
        return {"exit status": status, "tests": found, "why": "" if status in (0, 1) else last_words(err),
                "summary": f"{status}: " + (", ".join(f"{counted[word]} {word}" for word in ("passed", "failed", "died", "skipped") if counted[word])
                                            or "no test")}
    row.seconds = seconds or TESTS[name]
    # Tests start many short processes and kill some; what ends by a signal or _exit() loses its last profile. Workers that
    # are forked without exec are not profiled.
    row.least = 40
    return row


ROWS = {f"python-{name}": tests_of(name) for name in TESTS}
# Only if it is named: 130 modules take minutes.
MORE = {"python-objects": tests_of("objects", 1200)}
