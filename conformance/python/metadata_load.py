"""A metadata load by smbprotocol: creates, opens, closes and removes files, one after the other.

    metadata_load.py HOST PORT SHARE USER PASSWORD FOLDER FILES SECONDS

The folder has FILES files with the names file0, file1 and so on. Prints the number of operations.
"""

import random
import sys
import time
import uuid

from smbprotocol.connection import Connection
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    FileAttributes,
    FilePipePrinterAccessMask,
    ImpersonationLevel,
    Open,
    ShareAccess,
)
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

host, port, share, user, password, folder, files, seconds = sys.argv[1:]
connection = Connection(uuid.uuid4(), host, int(port), require_signing=False)
connection.connect()
session = Session(connection, user, password, require_encryption=False)
session.connect()
tree = TreeConnect(session, rf"\\{host}\{share}")
tree.connect(require_secure_negotiate=False)


def touch(name, disposition, options=0):
    file = Open(tree, rf"{folder}\{name}")
    access = FilePipePrinterAccessMask.GENERIC_READ | FilePipePrinterAccessMask.DELETE
    file.create(
        ImpersonationLevel.Impersonation,
        access,
        FileAttributes.FILE_ATTRIBUTE_NORMAL,
        ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE,
        disposition,
        CreateOptions.FILE_NON_DIRECTORY_FILE | options,
    )
    file.close()


chance = random.Random(1)
count = 0
end = time.monotonic() + float(seconds)
while time.monotonic() < end:
    own = f"smbprotocol-{count}"
    touch(own, CreateDisposition.FILE_CREATE)
    touch(f"file{chance.randrange(int(files))}", CreateDisposition.FILE_OPEN)
    touch(own, CreateDisposition.FILE_OPEN, CreateOptions.FILE_DELETE_ON_CLOSE)
    # Each is opened and closed.
    count += 6
connection.disconnect(True)
print(count)
