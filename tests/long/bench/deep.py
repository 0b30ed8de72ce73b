"""Three threads with deep native stacks: each level of Python calls the next through the C code of max()."""
import sys
import threading
import time

LEVELS = 24
end = time.time() + float(sys.argv[1])


def leaf(rounds):
    total = 0
    for i in range(rounds):
        total += i * i
    return total


def down(level, way):
    if level == 0:
        return leaf(200 + way % 7)
    if way >> level & 1:
        return max((way,), key=lambda w: down(level - 1, w))
    return sorted((way,), key=lambda w: down(level - 1, w))[0]


def work(number):
    way = number
    while time.time() < end:
        way = (way * 1103515245 + 12345) % 2 ** 31
        down(LEVELS, way)


threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
