"""NFS over TLS (RFC 9289) by OpenSSL: nfs_tls.py ADDRESS PORT CA [CERTIFICATE KEY]

The probe and the handshake, then NULL and EXCHANGE_ID. Prints the TLS version and cipher.
"""

import socket
import ssl
import struct
import sys

NULL, COMPOUND, EXCHANGE_ID, AUTH_TLS = 0, 1, 42, 7


def record(xid, procedure, flavor=0, arguments=b""):
    call = struct.pack(">10I", xid, 0, 2, 100003, 4, procedure, flavor, 0, 0, 0) + arguments
    return struct.pack(">I", 0x80000000 | len(call)) + call


def whole(stream, count):
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            sys.exit("the server closed the connection")
        data += part
    return data


def answered(stream, xid, verifier):
    mark = struct.unpack(">I", whole(stream, 4))[0]
    assert mark & 0x80000000, "the last fragment"
    reply = whole(stream, mark & 0x7FFFFFFF)
    head = struct.pack(">5I", xid, 1, 0, 0, len(verifier)) + verifier + struct.pack(">I", 0)
    assert reply.startswith(head), reply
    return reply[len(head):]


def main():
    address, port, ca, *own = sys.argv[1:]
    plain = socket.create_connection((address, int(port)), timeout=30)
    plain.sendall(record(1, NULL, AUTH_TLS))
    assert answered(plain, 1, b"STARTTLS") == b""

    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["sunrpc"])
    if own:
        context.load_cert_chain(*own)
    stream = context.wrap_socket(plain, server_hostname="server.test")
    assert stream.selected_alpn_protocol() == "sunrpc"
    stream.sendall(record(2, NULL))
    assert answered(stream, 2, b"") == b""

    owner = b"python"
    arguments = struct.pack(">4I8sI6s2x3I", 0, 2, 1, EXCHANGE_ID, b"verifier", len(owner), owner, 0, 0, 0)
    stream.sendall(record(3, COMPOUND, arguments=arguments))
    results = answered(stream, 3, b"")
    status, tag, count, operation, result = struct.unpack(">5I", results[:20])
    assert (status, tag, count, operation, result) == (0, 0, 1, EXCHANGE_ID, 0), results
    print(stream.version(), stream.cipher()[0])
    stream.unwrap().close()


main()
