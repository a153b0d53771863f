"""A read-only FUSE file system that shows a directory and sends no notifications: changes of the directory
appear as those of another machine.

    behind.py DIRECTORY AT SECONDS COMMAND...

mounts it at AT, where the kernel may cache names and attributes for SECONDS, and executes COMMAND. Run
it as root in its own mount namespace. <linux/fuse.h> defines the messages.
"""
import ctypes
import errno
import os
import signal
import stat
import struct
import sys

(LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE) = (1, 2, 3, 14, 15, 17, 18)
(FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET) = (25, 26, 27, 28, 29, 36, 42)
AUTO_INVAL_DATA = 1 << 12
PR_SET_PDEATHSIG = 1
HEAD = struct.Struct("<IIQQIIII")
LIBC = ctypes.CDLL(None, use_errno=True)


class Mirror:
    def __init__(self, directory, seconds):
        self.paths = {1: directory}
        self.numbers = {directory: 1}
        self.seconds = seconds

    def number(self, path):
        if path not in self.numbers:
            self.numbers[path] = len(self.paths) + 1
            self.paths[self.numbers[path]] = path
        return self.numbers[path]

    def attributes(self, number):
        found = os.lstat(self.paths[number])
        times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        return struct.pack(
            "<6Q10I", number, found.st_size, found.st_blocks,
            *(time // 10**9 for time in times), *(time % 10**9 for time in times),
            found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0,
        )

    def lookup(self, number, body):
        path = os.path.join(self.paths[number], os.fsdecode(body.rstrip(b"\0")))
        os.lstat(path)
        found = self.number(path)
        valid = struct.pack("<4Q2I", found, 0, self.seconds, self.seconds, 0, 0)
        return valid + self.attributes(found)

    def getattr(self, number, _):
        return struct.pack("<Q2I", self.seconds, 0, 0) + self.attributes(number)

    def read(self, number, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        with open(self.paths[number], "rb") as file:
            file.seek(offset)
            return file.read(size)

    def readdir(self, number, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        answer = b""
        names = [".", ".."] + sorted(os.listdir(self.paths[number]))
        for at, name in enumerate(names[offset:], offset + 1):
            path = os.path.join(self.paths[number], name)
            try:
                kind = stat.S_IFMT(os.lstat(path).st_mode) >> 12
            except FileNotFoundError:
                continue
            encoded = os.fsencode(name)
            entry = struct.pack("<QQII", self.number(path), at, len(encoded), kind) + encoded
            entry += b"\0" * (-len(entry) % 8)
            if len(answer) + len(entry) > size:
                break
            answer += entry
        return answer

    def answer(self, operation, number, body):
        if operation == INIT:
            return struct.pack("<4I2H2I2H2I24x", 7, 31, 65536, AUTO_INVAL_DATA, 16, 12, 65536, 1, 16, 0, 0, 0)
        if operation == STATFS:
            return struct.pack("<5Q4I24x", 1000, 500, 500, 1000, 500, 4096, 255, 4096, 0)
        if operation in (OPEN, OPENDIR):
            return bytes(16)
        if operation in (RELEASE, RELEASEDIR, FLUSH):
            return b""
        known = {LOOKUP: self.lookup, GETATTR: self.getattr, READ: self.read, READDIR: self.readdir}
        if operation not in known:
            raise OSError(errno.ENOSYS, "not known")
        return known[operation](number, body)

    def serve(self, device):
        while True:
            try:
                message = os.read(device, 1 << 18)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return
            _, operation, unique, number, *_ = HEAD.unpack_from(message)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            try:
                answer, refusal = self.answer(operation, number, message[HEAD.size:]), 0
            except OSError as error:
                answer, refusal = b"", -(error.errno or errno.EIO)
            os.write(device, struct.pack("<IiQ", 16 + len(answer), refusal, unique) + answer)


def main():
    directory, at, seconds, *command = sys.argv[1:]
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    if LIBC.mount(b"behind", os.fsencode(at), b"fuse", 0, options.encode()) != 0:
        sys.exit("mount: " + os.strerror(ctypes.get_errno()))
    if os.fork() == 0:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        Mirror(directory, int(seconds)).serve(device)
        os._exit(0)
    os.close(device)
    os.execvp(command[0], command)


main()
