"""Runs a file system suite in a folder, in the guest of conformance/suites.

    suites_run.py SUITE SOURCES PLACE REPORT SHARE_OF SEED ONLY

A line of REPORT is `TEST<tab>passed|failed|skipped<tab>WHY`. Runs every SHARE_OFth test file, beginning with
the one that SEED selects, and only those that match the shell pattern ONLY unless it is empty.
"""

import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

# pjdfstest mostly sleeps until a time stamp differs, and starts processes, so several tests run at once.
JOBS = 6
SECONDS_MAX = 300
XFSTESTS_SECONDS_MAX = int(os.environ.get("XFSTESTS_SECONDS_MAX") or "4500")


def chosen(names, share_of, seed, only):
    names = [name for name in sorted(names) if not only or any(fnmatch.fnmatch(name, one) for one in only.split())]
    return names[seed % share_of :: share_of]


def run(command, seconds=SECONDS_MAX, **options):
    """Returns exit status and output; the time limit ends the whole process group."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True, umask=0o022, **options,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return 124, f"{output}\nnot finished after {seconds} s\n"


def run_aloud(command, seconds, **options):
    """Like `run`, but prints the output at once, so that a hang is visible."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True, umask=0o022, **options,
    )
    timer = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    output = []
    for line in process.stdout:
        output.append(line)
        if os.environ.get("ALOUD"):
            print(line, end="", flush=True)
    timer.cancel()
    return "".join(output)


def one_line(text, characters=300):
    return " ".join(text.split())[-characters:]


def run_shell_test(sources, name, place):
    """Runs one file of pjdfstest in its own folder; its output is TAP."""
    environment = os.environ | {"PATH": f"{sources}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        command = [sources / "sh", sources / "pjdfstest" / "tests" / f"{name}.t"]
        return run(command, cwd=folder, env=environment)[1]


def tap_outcomes(name, output):
    planned = re.search(r"^1\.\.(\d+)", output, re.MULTILINE)
    seen = set()
    for line in output.splitlines():
        result = re.match(r"(not )?ok (\d+)(.*)", line)
        if result:
            seen.add(int(result[2]))
            yield f"{name} {result[2]}", "failed" if result[1] else "passed", result[3].strip(" -")
    if not planned:
        yield f"{name} plan", "failed", one_line(output)
        return
    for missing in sorted(set(range(1, int(planned[1]) + 1)) - seen):
        yield f"{name} {missing}", "failed", "it did not come to this"


def pjdfstest(sources, place, choose):
    tests = sources / "pjdfstest" / "tests"
    names = choose(str(path.relative_to(tests).with_suffix("")) for path in tests.glob("*/*.t"))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outputs = pool.map(lambda name: run_shell_test(sources, name, place), names)
        for name, output in zip(names, outputs, strict=True):
            yield from tap_outcomes(name, output)


def pjdfstest_rs(sources, place, _choose):
    """Runs all tests in one process, which takes a minute."""
    program = sources / "pjdfstest-rs" / "bin" / "pjdfstest"
    configuration = sources / "pjdfstest-rs.toml"
    configuration.write_text(
        "[features]\nposix_fallocate = {}\nrename_ctime = {}\nutime_now = {}\nutimensat = {}\n"
        "[settings]\nnaptime = 0.02\n[dummy_auth]\n"
        'entries = [["alice", "alice"], ["bob", "bob"]]\n',
        encoding="utf-8",
    )
    command = [program, "--configuration-file", configuration, "--path", place]
    outcomes = []
    for line in run(command, env=os.environ | {"NO_COLOR": "1"})[1].splitlines():
        result = re.match(r"(\S+) +(ok|FAILED|skipped)$", line)
        if result:
            outcomes.append([result[1], {"ok": "passed", "FAILED": "failed"}.get(result[2], result[2]), ""])
        elif outcomes and line.strip() and not line.startswith("Summary"):
            outcomes[-1][2] = f"{outcomes[-1][2]} {line.strip()}".strip()[:300]
    yield from outcomes


# The programs of its `runtests` scripts, in their order; each uses the folder of the one before.
CTHON04 = {
    "basic": [f"test{number} -t" for number in range(1, 10)],
    "special": [
        "op_unlk", "op_ren", "op_chmod", "dupreq 100 testfile", "excltest", "negseek testfile", "rename 100",
        "truncate", "holey", "nfsidem 50 testdir", "rewind", "telldir", "freesp", "bigfile -s 30 bigfile0",
        "bigfile2 bigfile0",
    ],
    "lock": ["tlocklfs .", "tlock64 ."],
}  # fmt: skip


def cthon04(sources, place, choose):
    suite = sources / "cthon04"
    tests = {f"{part}/{words.split()[0]}": words for part, lines in CTHON04.items() for words in lines}
    names = choose([*tests, "general"])
    for name in names:
        part, _, program = name.partition("/")
        folder = pathlib.Path(place) / part
        environment = os.environ | {"NFSTESTDIR": str(folder), "TMPDIR": ""}
        if part == "general":
            shutil.rmtree(folder, ignore_errors=True)
            status, output = run(["sh", "runtests"], 2 * SECONDS_MAX, cwd=suite / part, env=environment)
        else:
            folder.mkdir(exist_ok=True)
            command = [suite / part / program, *tests[name].split()[1:]]
            status, output = run(command, cwd=folder, env=environment)
        yield name, "failed" if status else "passed", one_line(output)


# What a test asks for by this can be had from no export of ext4, as the test itself would find after
# seconds of looking: disks, ways to lose power, and calls that NFSv4.2 or ext4 does not have.
NOT_OVER_NFS = re.compile(
    r"^\s*(_exclude_fs nfs\b|_scratch_mkfs_sized|_require_("
    "acls|atime|atomic_write|block_device|defrag|dm_|encryption|freeze|group_quota|local_device|log_writes"
    "|metadata_journaling|o_tmpfile|prjquota|quota|relatime|renameat2|scratch_(casefold|delalloc|dev_pool"
    "|mkfs_sized|richacl|shutdown|size|write_atomic)|(scratch|test)_(dedupe|encryption|reflink|swapfile|verity)"
    '|tmpfile|user_quota|xfs_io_command "?(enckey|exchangerange|falloc -k|fcollapse|fiemap|finsert|flink|fsmap'
    "|funshare|fzero|resblks|set_encpolicy|shutdown|swapon|zero|-T)))",
    re.MULTILINE,
)


def xfstests(sources, place, choose):
    yield from xfstests_of(sources, place, choose, lambda groups: "quick" in groups)


def xfstests_auto(sources, place, choose):
    yield from xfstests_of(sources, place, choose, lambda groups: "auto" in groups and "quick" not in groups)


def xfstests_of(sources, place, choose, is_wanted):
    """`place` is `ADDRESS:` before the exports `test` and `scratch`."""
    suite = sources / "xfstests"
    wanted = []
    for kind in ("generic", "nfs"):
        for line in (suite / f"tests/{kind}/group.list").read_text(encoding="utf-8").splitlines():
            number, *groups = line.split() or "#"
            if number == "#" or not is_wanted(groups):
                continue
            source = (suite / f"tests/{kind}/{number}").read_text(encoding="utf-8")
            if not NOT_OVER_NFS.search(source):
                wanted.append(f"{kind}/{number}")
    names = choose(wanted)
    for folder in ("/mnt/xfs-test", "/mnt/xfs-scratch"):
        os.makedirs(folder, exist_ok=True)
    (suite / "local.config").write_text(
        f"export FSTYP=nfs\nexport TEST_DEV={place}/test TEST_DIR=/mnt/xfs-test\n"
        f"export SCRATCH_DEV={place}/scratch SCRATCH_MNT=/mnt/xfs-scratch\n"
        'export NFS_MOUNT_OPTIONS="-o vers=4.2"\nexport TEST_FS_MOUNT_OPTS="-o vers=4.2"\n',
        encoding="utf-8",
    )
    shutil.rmtree(suite / "results", ignore_errors=True)
    output = run_aloud(["./check", "-nfs", *names], XFSTESTS_SECONDS_MAX, cwd=suite)
    pathlib.Path(f"/mnt/out/xfstests-{place.strip('[:]')}.log").write_text(output, encoding="utf-8")
    bad = set()
    for failures in re.findall(r"^Failures: (.*)$", output, re.MULTILINE):
        bad |= set(failures.split())
    parts = re.split(r"^((?:generic|nfs)/\d+)\s", output, flags=re.MULTILINE)
    said = dict(zip(parts[1::2], parts[2::2], strict=True))
    for name in names:
        text = said.get(name, "").split("\nRan:")[0]
        reason = re.match(r".*\[not run\]\s*(.*)", text)
        if reason:
            yield name, "skipped", one_line(reason[1])
        elif not text:
            yield name, "missing", "it did not come to this"
        # The line of a passed test ends with its time. A killed run lists no failures.
        elif name in bad or not re.match(r".*\b\d+s\s*$", text.split("\n")[0]):
            yield name, "failed", one_line(text, 600)
        else:
            yield name, "passed", ""


# Duration of each program.
LONG_SECONDS = int(os.environ.get("XFSTESTS_SECONDS_MAX") or "300")


def xfstests_long(sources, place, _choose):
    """Runs fsx, which compares a file with its copy during random operations, and fsstress, whose eight processes
    change one tree, each for that long. Prints their summaries."""
    ltp = sources / "xfstests" / "ltp"
    tree = pathlib.Path(place) / "tree"
    tree.mkdir()
    seed = str(os.getpid())
    duration = f"--duration={LONG_SECONDS}"
    fsx = [ltp / "fsx", "-q", "-S", seed, duration, "-P", "/tmp"]
    programs = {
        "fsx": [*fsx, f"{place}/fsx"],
        "fsx-direct": [*fsx, "-Z", "-R", "-W", "-r", "4096", "-w", "4096", f"{place}/fsx-direct"],
        "fsstress": [ltp / "fsstress", "-d", tree, "-p", "8", "-s", seed, duration, "-v"],
    }
    for name, command in programs.items():
        status, output = run(command, LONG_SECONDS + 300)
        if name == "fsstress":
            lines = re.findall(r"^\d+/\d+: ", output, re.MULTILINE)
            output = output if status else f"{len(lines)} operations with seed {seed}"
        print(name, one_line(output), flush=True)
        yield name, "failed" if status else "passed", one_line(output)
    shutil.rmtree(tree)
    yield "removed", "failed" if tree.exists() else "passed", ""


def main(suite, sources, place, report, share_of, seed, only):
    run_suite = {
        "cthon04": cthon04,
        "pjdfstest": pjdfstest,
        "pjdfstest-rs": pjdfstest_rs,
        "pjdfstest-smb": pjdfstest,
        "xfstests": xfstests,
        "xfstests-auto": xfstests_auto,
        "xfstests-long": xfstests_long,
    }[suite]

    def choose(names):
        return chosen(names, int(share_of), int(seed), only)

    with open(report, "w", encoding="utf-8") as file:
        for outcome in run_suite(pathlib.Path(sources), place, choose):
            print(*outcome, sep="\t", file=file)


main(*sys.argv[1:])
