"""Files on an NFS mount: locks of two processes, an open file without a name, holes, copies and extended
attributes. The argument is the NFS version."""

import errno
import fcntl
import os
import sys
import time

# Linux renames an open file when it is unlinked, and removes it asynchronously after the last close.
REMOVED_SECONDS_MAX = 10

later = sys.argv[1] != "4.1"


def is_soon_empty():
    end = time.monotonic() + REMOVED_SECONDS_MAX
    while left := os.listdir("."):
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.05)


def locks():
    with open("locked", "w+") as file:
        file.write("x" * 100)
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
        child = os.fork()
        if child == 0:
            with open("locked", "r+") as other:
                try:
                    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 5)
                    os._exit(1)
                except OSError:
                    pass
                fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 20)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, "the locks of the child are wrong"
        os.unlink("locked")
        file.seek(0)
        assert file.read() == "x" * 100, "an open file without a name is lost"
    is_soon_empty()


def holes():
    file = os.open("sparse", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 1 << 20)
    os.pwrite(file, b"a" * 4096, 512 * 1024)
    os.fsync(file)
    found = (os.lseek(file, 0, os.SEEK_DATA), os.lseek(file, 512 * 1024, os.SEEK_HOLE))
    expected = (512 * 1024, 516 * 1024) if later else (0, 1 << 20)
    assert found == expected, found
    os.posix_fallocate(file, 1 << 20, 1 << 20)
    assert os.fstat(file).st_size == 2 << 20
    os.lseek(file, 0, os.SEEK_SET)
    copy = os.open("copy", os.O_RDWR | os.O_CREAT)
    assert os.copy_file_range(file, copy, 1 << 20) == 1 << 20
    assert os.pread(copy, 4097, 512 * 1024) == b"a" * 4096 + b"\0"
    os.close(file)
    os.close(copy)


def attributes():
    try:
        os.setxattr("copy", "user.colour", b"red")
        assert later
        assert os.getxattr("copy", "user.colour") == b"red"
        # Linux also lists access lists, with names in `system.`.
        listed = os.listxattr("copy")
        assert [name for name in listed if name.startswith("user.")] == ["user.colour"], listed
    except OSError as error:
        assert not later and error.errno == errno.ENOTSUP, error
    os.unlink("sparse")
    os.unlink("copy")


locks()
holes()
attributes()
