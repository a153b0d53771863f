"""Attacks on NFS over TLS: invalid certificates, bytes before the handshake, and access without TLS.
RFC 9289."""

import os
import ssl
import subprocess

from attack_server import ATTACKER, Place, Server, attack, require
from hostile_nfs import SEQUENCE, HostileNfs, lookup, read
from raw_nfs import ANONYMOUS, NfsStatus, put, words

FOLDER = "certificates"


def make_certificates(folder):
    """Certificates: an authority, its server and client, an expired client, and a client of another authority."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    os.makedirs(folder)
    for authority in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=" + authority, "-keyout", authority + ".key", "-out", authority + ".pem")
    for name, authority in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + name,
                "-addext", "subjectAltName=DNS:" + name, "-keyout", name + ".key", "-out", name + ".csr")
        openssl("x509", "-req", "-in", name + ".csr", "-CA", authority + ".pem", "-CAkey", authority + ".key",
                "-CAcreateserial", "-days", "2", "-copy_extensions", "copy", "-out", name + ".pem")
    openssl("x509", "-req", "-in", "client.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "-1", "-copy_extensions", "copy", "-out", "expired.pem")
    with open(os.path.join(folder, "client.key"), "rb") as key, open(os.path.join(folder, "expired.key"), "wb") as copy:
        copy.write(key.read())


def server_with_tls():
    folder = os.path.join(Place.folder, FOLDER)
    if not os.path.isdir(folder):
        make_certificates(folder)
    at = "\n".join('nfs_tls_%s = "%s"' % (key, os.path.join(folder, file)) for key, file in (
        ("certificate", "server.pem"), ("key", "server.key"), ("client_ca", "ca.pem")))
    server = Server({"data": 'nfs_tls = "required"', "clear": ""}, head=at)
    server.put("file", "SECRET", mode=0o666)
    return server, folder


def under_tls(server, folder, name, ahead=b"", version=None):
    """A client over TLS with this certificate."""
    nfs = HostileNfs(server, ATTACKER, ATTACKER)
    message = words(0x77, 0, 2, 100003, 4, 0) + words(7, 0, 0, 0)
    nfs.socket.sendall(words(0x80000000 | len(message)) + message + ahead)
    mark = int.from_bytes(nfs._need(4), "big") & 0x7FFFFFFF
    require(b"STARTTLS" in nfs._need(mark), "TLS is not offered")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["sunrpc"])
    if name:
        context.load_cert_chain(os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key"))
    if version:
        context.maximum_version = version
    nfs.socket = context.wrap_socket(nfs.socket)
    nfs.mount()
    return nfs


@attack("Comes under TLS without a certificate, with one of another authority, with an expired one and by TLS 1.2")
def client_without_good_certificate_gets_nothing():
    server, folder = server_with_tls()
    require(under_tls(server, folder, "client").find("data", "file"), "a good certificate does not do")
    for name, version in ((None, None), ("stranger", None), ("expired", None), ("client", ssl.TLSVersion.TLSv1_2)):
        try:
            under_tls(server, folder, name, version=version).find("data", "file")
        except (OSError, EOFError, NfsStatus):
            continue
        require(False, "a client with %s, %s finds the file", name, version)


@attack("Sends a request in the clear right behind STARTTLS, to have it taken for one under TLS")
def bytes_ahead_of_handshake_are_not_taken():
    server, folder = server_with_tls()
    try:
        under_tls(server, folder, "client", ahead=words(0x80000004) + b"aaaa").find("data", "file")
    except (OSError, EOFError, NfsStatus):
        return
    require(False, "the handshake goes on behind them")


@attack("Reads in the clear by a handle, a session and a replay that were had under TLS")
def share_under_tls_is_not_read_in_the_clear():
    server, folder = server_with_tls()
    secure = under_tls(server, folder, "client")
    handle = secure.find("data", "file")
    clear = HostileNfs.mounted(server, ATTACKER)
    require(clear.compound(words(24), lookup("clear"))[0] == 0, "the other share is not found")
    require(clear.compound(words(24), lookup("data"), lookup("file"))[0] != 0, "the file is found in the clear")
    for session, sequence in ((clear.session, clear.sequence + 1), (secure.session, secure.sequence + 1),
                              (secure.session, secure.sequence)):
        try:
            status, reply = clear._request([words(SEQUENCE) + session + words(sequence, 0, 0, 0), put(handle),
                                            read(ANONYMOUS, 0, 6)])
        except (OSError, EOFError, NfsStatus):
            clear = HostileNfs.mounted(server, ATTACKER)
            continue
        require(status != 0 or b"SECRET" not in reply, "it is read")
