"""Attacks on the announcement: senders of other networks, floods, malformed and oversized messages.
A client must be answered afterwards. Datagrams go to the groups: the server receives no others. Usage: discovery_attacks.py SERVER INTERFACE"""
import os
import re
import socket
import struct
import sys
import time
import uuid

SERVER, INTERFACE = sys.argv[1:]
OTHER = "192.0.2.9"
OWN = "10.77.0.2"
MDNS, WSD, HTTP = ("224.0.0.251", 5353), ("239.255.255.250", 3702), 5357
INDEX = socket.if_nametoindex(INTERFACE)


def name(text):
    parts = b"".join(bytes([len(part)]) + part.encode() for part in text.split("."))
    return parts + b"\0"


def query(text="_smb._tcp.local", kind=12, unicast=True, count=1):
    question = name(text) + struct.pack("!HH", kind, 0x8001 if unicast else 1)
    return struct.pack("!HHHHHH", 7, 0, count, 0, 0, 0) + question * count


def envelope(action, body, identifier=None, to="urn:schemas-xmlsoap-org:ws:2005:04:discovery", before=""):
    identifier = identifier or f"urn:uuid:{uuid.uuid4()}"
    return (
        f'<?xml version="1.0"?>{before}<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" '
        'xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" '
        'xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery" '
        'xmlns:p="http://schemas.xmlsoap.org/ws/2006/02/devprof"><s:Header>'
        f"<a:To>{to}</a:To><a:Action>{action}</a:Action><a:MessageID>{identifier}</a:MessageID>"
        f"</s:Header><s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


def probe(**more):
    action = "http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe"
    return envelope(action, "<d:Probe><d:Types>p:Device</d:Types></d:Probe>", **more)


def sender(address):
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind((address, 0))
    by_index = struct.pack("=4s4si", b"\0" * 4, socket.inet_aton(address), INDEX)
    found.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, by_index)
    # Other programs of this machine are no targets.
    found.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    found.settimeout(1.5)
    return found


def answered(source, group, message, tries=1):
    for _ in range(tries):
        source.sendto(message() if callable(message) else message, group)
        try:
            return source.recv(9000)
        except TimeoutError:
            pass
    return None


def expect(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")
    print(f"ok: {what}")


local = sender(OWN)
answer = answered(local, MDNS, query, 3)
expect(answer and b"_smb" in answer and answer[:2] == b"\0\7", "a resolver of plain DNS is answered")
answer = answered(local, WSD, probe, 3)
expect(answer and b"ProbeMatches" in answer, "a Probe is answered")
endpoint = re.search(rb"urn:uuid:([0-9a-f-]{36})</wsa:Address>", answer).group(1).decode()

foreign = sender(OTHER)
expect(answered(foreign, MDNS, query) is None, "mDNS: a sender of another network is not answered")
expect(answered(foreign, WSD, probe) is None, "WS-Discovery: a sender of another network is not answered")


def post(source, body, path=endpoint, headers=""):
    client = socket.socket()
    client.settimeout(12)
    client.bind((source, 0))
    client.connect((SERVER, HTTP))
    head = f"POST /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    data = b""
    try:
        client.sendall(head.encode() + body)
        while part := client.recv(65536):
            data += part
    except OSError:
        pass
    client.close()
    return data


get = envelope("http://schemas.xmlsoap.org/ws/2004/09/transfer/Get", "", to=f"urn:uuid:{endpoint}")
expect(b"NAS/Workgroup:WORKGROUP" in post(OWN, get), "metadata are served")
expect(post(OTHER, get) == b"", "metadata are not served to another network")
for what, data in [
    ("another path", post(OWN, get, "other")),
    ("a Probe", post(OWN, probe())),
    ("no XML", post(OWN, b"<")),
    ("a body of 1 MiB", post(OWN, b"<a>" * 350_000)),
    ("a head of 64 KiB", post(OWN, get, headers=f"X: {'y' * 65536}\r\n")),
    ("a hundred headers", post(OWN, get, headers="X: y\r\n" * 100)),
]:
    expect(b" 200 " not in data[:20], f"metadata: {what} is refused: {data[:20]!r}")

client = socket.socket()
client.settimeout(2)
client.bind((OWN, 0))
client.connect((SERVER, HTTP))
request = f"POST /{endpoint} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(get)}\r\n\r\n".encode() + get
data = b""
try:
    client.sendall(request + request)
    while part := client.recv(65536):
        data += part
except OSError:
    pass
client.close()
expect(data.count(b"HTTP/1.1") == 1, "a connection carries one request")

# A unicast datagram belongs to other programs of the server's machine.
for group, message in (MDNS, query()), (WSD, probe()):
    direct = sender(OWN)
    direct.sendto(message, (SERVER, group[1]))
    try:
        direct.recv(9000)
        expect(False, f"a unicast datagram to {group[1]} is not received")
    except (TimeoutError, ConnectionRefusedError):
        print(f"ok: a unicast datagram to {group[1]} is not received")
    direct.close()

# Slots: silent connections of one address leave room for others, and end.
silent = []
for _ in range(8):
    one = socket.socket()
    one.bind((OWN, 0))
    one.settimeout(1)
    one.connect((SERVER, HTTP))
    silent.append(one)
closed = 0
for one in silent:
    try:
        closed += one.recv(1) == b""
    except ConnectionResetError:
        closed += 1
    except TimeoutError:
        pass
expect(closed == 4, f"4 of 8 silent connections of one address are refused: {closed}")
for one in silent:
    one.close()

bomb = '<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
malformed_dns = [
    b"", b"\0" * 11, os.urandom(500), query()[:-3], query(count=65), b"\0" * 4 + b"\xff" * 8,
    struct.pack("!HHHHHH", 0, 0, 1, 0, 0, 0) + b"\xc0\x0c\0\x0c\0\x01",
    struct.pack("!HHHHHH", 0, 0, 1, 0, 0, 0) + b"\x3fa" * 200,
    query() + b"x" * 9000,
]
malformed_xml = [
    probe(before=bomb), probe(before="<?php ?>"), b"<" * 8000, b"<a>" * 2600, probe()[:-20],
    probe().replace(b"<s:Body>", b"<s:Body>" + b"<x>" * 40), probe() + b" " * 30_000,
    probe(identifier="x" * 4000), probe(identifier="&b;"), b"\xff\xfe<\0", os.urandom(1000),
]
for message in malformed_dns:
    local.sendto(message, MDNS)
for message in malformed_xml:
    local.sendto(message, WSD)
time.sleep(1)
local.close()

repeated = sender(OWN)
identifier = f"urn:uuid:{uuid.uuid4()}"
for _ in range(3):
    repeated.sendto(probe(identifier=identifier), WSD)
answers = 0
try:
    while repeated.recv(9000):
        answers += 1
except TimeoutError:
    pass
expect(answers == 2, f"a repeated Probe has one answer, which is sent twice: {answers}")

flood = sender(OWN)
for _ in range(4000):
    flood.sendto(query(), MDNS)
    flood.sendto(probe(), WSD)
flood.setblocking(False)
time.sleep(2)
received = 0
try:
    while True:
        flood.recv(9000)
        received += 1
except BlockingIOError:
    pass
expect(received < 400, f"8000 queries of one sender have {received} answers")
flood.close()

time.sleep(3)
last = sender(OWN)
expect(answered(last, MDNS, query, 5), "mDNS answers after the flood")
last = sender(OWN)
expect(answered(last, WSD, probe, 5), "WS-Discovery answers after the flood")
