"""impacket, an independent SMB implementation in Python, against the server.

    impacket_client.py HOST PORT SHARE USER PASSWORD
"""

import io
import sys

from impacket.smbconnection import SMBConnection, SessionError

host, port, share, user, password = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]
data = bytes(range(256)) * 5000

for dialect in (0x0202, 0x0210, 0x0300, 0x0311):
    client = SMBConnection(host, host, sess_port=port, preferredDialect=dialect)
    client.login(user, password)
    shares = [entry["shi1_netname"][:-1].lower() for entry in client.listShares()]
    assert share.lower() in shares and "ipc$" in shares, shares
    client.createDirectory(share, "imp")
    client.putFile(share, "imp\\file", io.BytesIO(data).read)
    back = io.BytesIO()
    client.getFile(share, "imp\\file", back.write)
    assert back.getvalue() == data
    names = sorted(entry.get_longname() for entry in client.listPath(share, "imp\\*"))
    assert names == [".", "..", "file"], names
    client.rename(share, "imp\\file", "imp\\other")
    try:
        client.deleteDirectory(share, "imp")
        raise AssertionError("a directory with entries was removed")
    except SessionError:
        pass
    client.deleteFile(share, "imp\\other")
    client.deleteDirectory(share, "imp")
    client.logoff()
    print(f"ok: impacket, dialect {dialect:#06x}")
