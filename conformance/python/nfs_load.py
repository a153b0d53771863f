"""Mixed load on an NFS mount while its connections are cut or its server is killed: data written and read
back, names created and removed, counters under locks. No operation may fail, be executed twice or hang,
and each connection must be re-established. Arguments: the mount, the minimum number of seconds, the
minimum number of reconnections of each connection (0: no cuts), and the name of the file that requests
the fault (`cut` by default, or `kill`)."""

import fcntl
import os
import random
import sys
import threading
import time
import traceback

mount, seconds, anew = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
trouble = sys.argv[4] if len(sys.argv) > 4 else "cut"
is_killed = trouble == "kill"
# A worker without progress for this time hangs. On an emulated machine beside other tests a client has a fifth
# of a CPU, and it first resends all data that a killed server had not committed.
STILL_SECONDS_MAX = 180
# Without cuts: maximum ratio of the replies of the busiest connection to those of the idlest. It is measured after
# EVEN_SECONDS_MIN, when each connection has EVEN_REPLIES_MIN, or after EVEN_SECONDS_MAX. Linux uses its
# connections in turn, but skips those with longer queues: with a busy disk a connection with waiting flushes
# carries a twentieth of the others' replies for a second.
UNEVEN_MAX = 4
EVEN_REPLIES_MIN = 100
EVEN_SECONDS_MIN = 5
EVEN_SECONDS_MAX = 15
# Permitted excess over the requested time.
LATE_SECONDS_MAX = 150
place = f"{mount}/load"
stop = threading.Event()
progress, failures = {}, []


def connections():
    """For each connection of the mount: the number of connects, and of replies."""
    found, lines = False, []
    for line in open("/proc/self/mountstats"):
        if line.startswith("device "):
            found = f" mounted on {mount} " in line
        elif found and line.split()[:2] == ["xprt:", "tcp"]:
            numbers = line.split()[2:]
            lines.append((int(numbers[2]), int(numbers[6])))
    assert lines, "the mount has no connections"
    return lines


def data(name, draw):
    """Large and small files: written, flushed, dropped from the cache of the client, and read."""
    path = f"{place}/{name}"
    # A killed server has much uncommitted data.
    content = draw.randbytes(draw.choice([1, 5000, 300_000, 3_000_000 * (1 + 6 * is_killed)]))
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for at in range(0, len(content), 200_000):
        os.pwrite(file, content[at : at + 200_000], at)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    read = b"".join(iter(lambda: os.read(file, 1 << 20), b""))
    os.close(file)
    assert read == content, f"{path} differs from the written data: {difference(read, content)}"


def difference(read, written):
    """Describes the difference: pages, lengths, and the data instead."""
    pages = range(0, max(len(read), len(written)), 4096)
    wrong = [at for at in pages if read[at : at + 4096] != written[at : at + 4096]]
    zeros = sum(not any(read[at : at + 4096]) for at in wrong)
    span = f"{len(wrong)} pages from {wrong[0]} to {wrong[-1]}"
    return f"{len(read)} bytes for {len(written)}, {span}, {zeros} of them zeros or not there"


def once(call, *arguments):
    """A killed server loses its replay cache, so it may refuse a repeated operation. Without a kill no operation
    may be repeated."""
    try:
        call(*arguments)
    except (FileExistsError, FileNotFoundError):
        if not is_killed:
            raise


def names(name, _):
    """Operations that fail when they are executed twice."""
    folder = f"{place}/{name}"
    once(os.mkdir, folder)
    # The server recognises this repeated create by its verifier, which is on the disk.
    os.close(os.open(f"{folder}/file", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    once(os.link, f"{folder}/file", f"{folder}/link")
    once(os.symlink, "file", f"{folder}/symbolic")
    once(os.rename, f"{folder}/file", f"{folder}/renamed")
    assert sorted(os.listdir(folder)) == ["link", "renamed", "symbolic"], os.listdir(folder)
    for entry in ("link", "renamed", "symbolic"):
        once(os.unlink, f"{folder}/{entry}")
    once(os.rmdir, folder)
    assert not os.path.lexists(folder), f"{folder} is still there"


def counter(name, _):
    """Each worker increments the numbers in two files under a lock."""
    for which in ("even", "odd"):
        with open(f"{place}/{which}", "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            count = int(file.read())
            os.pwrite(file.fileno(), b"%12d" % (count + 1), 0)
            fcntl.flock(file, fcntl.LOCK_UN)


def walk(name, draw):
    """Lists the directory that the other workers change."""
    for entry in os.scandir(place):
        try:
            entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            pass


def work(task, name):
    draw = random.Random(name)
    progress[name] = [0, time.monotonic()]
    try:
        while not stop.is_set():
            task(name, draw)
            progress[name] = [progress[name][0] + 1, time.monotonic()]
    except BaseException:
        failures.append(f"{name}: {traceback.format_exc()}")


def look():
    """Ends the run if a worker failed or hangs."""
    now = time.monotonic()
    for name, (_, last) in progress.items():
        if now - last > STILL_SECONDS_MAX:
            for thread in os.listdir("/proc/self/task"):
                print(open(f"/proc/self/task/{thread}/stack").read(), file=sys.stderr)
            print(f"connects and replies of each connection: {connections()}", file=sys.stderr)
            failures.append(f"{name} stands still for {now - last:.0f} s")
    if failures:
        print("\n".join(failures), file=sys.stderr, flush=True)
        # No wait for threads that hang in the kernel.
        os._exit(1)


def wait_until(what, is_so, limit):
    end = time.monotonic() + limit
    while not is_so():
        look()
        if time.monotonic() > end:
            failures.append(f"not within {limit} s: {what}: {connections()}")
        time.sleep(0.5)


os.mkdir(place)
for which in ("even", "odd"):
    with open(f"{place}/{which}", "wb") as file:
        file.write(b"%12d" % 0)
tasks = [(data, 5), (names, 4), (counter, 2), (walk, 1)]
workers = [
    threading.Thread(target=work, args=(task, f"{task.__name__} {number}"), daemon=True)
    for task, count in tasks
    for number in range(count)
]
for worker in workers:
    worker.start()
start, before = time.monotonic(), connections()
if anew:
    open(f"{mount}/{trouble}", "w").close()


def was_cut():
    is_over = time.monotonic() - start >= seconds
    pairs = zip(connections(), before)
    return is_over and all(now[0] - then[0] >= anew for now, then in pairs)


wait_until("each connection is re-established", was_cut, seconds + LATE_SECONDS_MAX)
if anew:
    once(os.unlink, f"{mount}/{trouble}")
    # A cut that has begun ends within this time.
    time.sleep(1)
quiet = connections()
# After all reconnections each connection must carry replies.
wait_until(
    "each works again",
    lambda: all(now[1] > then[1] for now, then in zip(connections(), quiet)),
    60,
)
quiet, even_start = connections(), time.monotonic()


def brought():
    """The sorted numbers of replies of each connection since then."""
    return sorted(now[1] - then[1] for now, then in zip(connections(), quiet))


def is_told():
    seconds = time.monotonic() - even_start
    enough = seconds >= EVEN_SECONDS_MIN and brought()[0] >= EVEN_REPLIES_MIN
    return enough or seconds >= EVEN_SECONDS_MAX


while not is_told():
    look()
    time.sleep(0.2)
replies = brought()
stop.set()
wait_until("they end", lambda: not any(worker.is_alive() for worker in workers), 60)
look()
rounds = {name: count for name, (count, _) in progress.items()}
for which in ("even", "odd"):
    with open(f"{place}/{which}", "rb") as file:
        counted, wanted = int(file.read()), sum(rounds[f"counter {n}"] for n in range(2))
    assert counted == wanted, f"{which}: {counted} instead of {wanted}"
    os.unlink(f"{place}/{which}")
for number in range(5):
    os.unlink(f"{place}/data {number}")
os.rmdir(place)
is_even = replies[0] < EVEN_REPLIES_MIN or replies[-1] <= UNEVEN_MAX * replies[0]
assert is_even, f"the load is not balanced over the connections: {replies}"
made = sum(now[0] - then[0] for now, then in zip(connections(), before))
print(f"{len(before)} connections were re-established {made} times in {time.monotonic() - start:.0f} s;", end=" ")
print(f"then each carried {replies[0]} to {replies[-1]} replies;", end=" ")
print(", ".join(f"{name}: {count}" for name, count in rounds.items()), flush=True)
