"""Three threads with stacks up to 126 deep: two compute, all wait for a lock and sleep.

usage: threads.py SECONDS"""
import json
import sys
import threading
import time

seconds, lock = float(sys.argv[1]), threading.Lock()
end = time.monotonic() + seconds
rows = [{"id": i, "name": f"row {i}", "values": list(range(i % 17))} for i in range(60)]


def deep(depth, work):
    """Calls work() through C functions, so that the real stack is deep, by ways that differ."""
    if depth <= 0:
        return work()
    if depth % 3 == 0:
        return max(map(lambda left: deep(left, work), (depth - 1,)))
    if depth % 3 == 1:
        return sorted((depth - 1,), key=lambda left: deep(left, work))[0]
    return list(filter(lambda left: deep(left, work), (depth - 1,)))


def encode():
    return len(json.dumps(rows)) + len(json.loads(json.dumps(rows)))


def sort():
    return sum(sorted((i * 7919 % 1009 for i in range(4000)), key=lambda value: -value)[:3])


def text():
    return len(" ".join(str(i) for i in range(3000)).replace("1", "one"))


def worker(number):
    kinds = (encode, sort, text)
    turn = 0
    while time.monotonic() < end:
        deep((turn * 13 + number * 5) % 26, kinds[(turn + number) % 3])
        if turn % 20 == 0:
            with lock:
                time.sleep(0.004)
        turn += 1


threads = [threading.Thread(target=worker, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
