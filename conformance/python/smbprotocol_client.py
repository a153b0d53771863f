"""Tests the server with smbprotocol, an independent SMB implementation in Python.

smbprotocol_client.py HOST PORT SHARE USER PASSWORD DIALECT signed|sealed SIGNING CIPHER
"""

import sys
import uuid

import smbclient
import smbclient.shutil
from smbprotocol.connection import Ciphers, Connection, Dialects, SigningAlgorithms
from smbprotocol.exceptions import SMBOSError

DIALECTS = {
    "2.0.2": Dialects.SMB_2_0_2,
    "2.1": Dialects.SMB_2_1_0,
    "3.0": Dialects.SMB_3_0_0,
    "3.0.2": Dialects.SMB_3_0_2,
    "3.1.1": Dialects.SMB_3_1_1,
}
CIPHERS = {
    "AES-128-CCM": Ciphers.AES_128_CCM,
    "AES-128-GCM": Ciphers.AES_128_GCM,
    "AES-256-CCM": Ciphers.AES_256_CCM,
    "AES-256-GCM": Ciphers.AES_256_GCM,
}
SIGNING = {
    "HMAC-SHA256": SigningAlgorithms.HMAC_SHA256,
    "AES-128-CMAC": SigningAlgorithms.AES_CMAC,
    "AES-128-GMAC": SigningAlgorithms.AES_GMAC,
}

host, port, share, user, password, dialect, protection, signing, cipher = sys.argv[1:]
connection = Connection(uuid.uuid4(), host, int(port), require_signing=True)
chosen = {}
if dialect == "3.1.1":
    chosen = {"preferred_encryption_algos": [CIPHERS[cipher]], "preferred_signing_algos": [SIGNING[signing]]}
connection.connect(dialect=DIALECTS[dialect], **chosen)
pool = {"connection_cache": {f"{host}:{port}": connection}, "port": int(port)}
try:
    smbclient.register_session(host, user, password, encrypt=protection == "sealed", **pool)

    root = rf"\\{host}\{share}\py"
    data = bytes(range(256)) * 5000
    names = [f"anabranch-needle {number} ü🦀" for number in range(300)]

    smbclient.mkdir(root, **pool)
    with smbclient.open_file(rf"{root}\file", mode="xb", **pool) as file:
        file.write(data)
    with smbclient.open_file(rf"{root}\file", mode="r+b", **pool) as file:
        file.seek(100_000)
        file.write(b"middle")
        file.truncate(1_000_000)
    expected = data[:100_000] + b"middle" + data[100_006:1_000_000]
    with smbclient.open_file(rf"{root}\file", mode="rb", **pool) as file:
        assert file.read() == expected

    status = smbclient.stat(rf"{root}\file", **pool)
    assert status.st_size == len(expected), status
    smbclient.utime(rf"{root}\file", times=(1_000_000_000, 1_100_000_000), **pool)
    assert smbclient.stat(rf"{root}\file", **pool).st_mtime == 1_100_000_000
    assert smbclient.stat_volume(root, **pool).total_size > 0
    smbclient.setxattr(rf"{root}\file", b"COLOUR", b"blue", **pool)
    assert smbclient.getxattr(rf"{root}\file", b"COLOUR", **pool) == b"blue"

    smbclient.shutil.copyfile(rf"{root}\file", rf"{root}\copy", **pool)  # The server copies.
    with smbclient.open_file(rf"{root}\copy", mode="rb", **pool) as file:
        assert file.read() == expected
    try:
        smbclient.rename(rf"{root}\file", rf"{root}\copy", **pool)
        raise AssertionError("a rename replaced a file without being told to")
    except SMBOSError:
        pass
    smbclient.replace(rf"{root}\file", rf"{root}\copy", **pool)
    assert smbclient.listdir(root, **pool) == ["copy"]

    for name in names:
        with smbclient.open_file(rf"{root}\{name}", mode="x", **pool) as file:
            file.write(name)
    found = {entry.name: entry.smb_info.end_of_file for entry in smbclient.scandir(root, **pool)}
    assert found.pop("copy") == len(expected)
    assert found == {name: len(name.encode()) for name in names}, "the listing is not what was made"
    assert sorted(smbclient.listdir(root, search_pattern="*needle 29?*", **pool)) == sorted(
        name for name in names if name.startswith("anabranch-needle 29")
    )
    try:
        smbclient.rmdir(root, **pool)
        raise AssertionError("a directory with entries was removed")
    except SMBOSError:
        pass
    for name in ["copy", *names]:
        smbclient.remove(rf"{root}\{name}", **pool)
    smbclient.rmdir(root, **pool)
    assert "py" not in smbclient.listdir(rf"\\{host}\{share}", **pool)
finally:
    connection.disconnect()  # Its thread would keep the process.
