"""Tests the server with impacket, an independent SMB implementation in Python.

    impacket_client.py HOST PORT SHARE USER PASSWORD DIALECT signed|sealed SIGNING CIPHER

impacket has one cipher and cannot choose the signing algorithm. The lane checks both by its relay.
"""

import io
import sys

from impacket.smbconnection import SMBConnection, SessionError

DIALECTS = {"2.0.2": 0x0202, "2.1": 0x0210, "3.0": 0x0300, "3.1.1": 0x0311}

host, port, share, user, password, dialect, protection = sys.argv[1:8]
data = bytes(range(256)) * 5000

client = SMBConnection(host, host, sess_port=int(port), preferredDialect=DIALECTS[dialect])
# It seals whenever the server can.
client.getSMBServer()._Connection["SupportsEncryption"] = protection == "sealed"
client.login(user, password)
shares = [entry["shi1_netname"][:-1].lower() for entry in client.listShares()]
assert share.lower() in shares and "ipc$" in shares, shares
client.createDirectory(share, "imp")
client.putFile(share, "imp\\anabranch-needle", io.BytesIO(data).read)
back = io.BytesIO()
client.getFile(share, "imp\\anabranch-needle", back.write)
assert back.getvalue() == data
entries = {entry.get_longname(): entry.get_filesize() for entry in client.listPath(share, "imp\\*")}
assert entries.keys() == {".", "..", "anabranch-needle"}, entries
assert entries["anabranch-needle"] == len(data), entries
client.rename(share, "imp\\anabranch-needle", "imp\\other")
try:
    client.deleteDirectory(share, "imp")
    raise AssertionError("a directory with entries was removed")
except SessionError:
    pass
client.deleteFile(share, "imp\\other")
client.deleteDirectory(share, "imp")
assert "imp" not in [entry.get_longname() for entry in client.listPath(share, "*")]
client.close()
