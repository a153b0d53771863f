"""A DNS server for a test: dns_server.py ADDRESS ZONES. Each query reads the file again:
{"names": {NAME: [IPV4]}, "claims": {IPV4: NAME}, "silent": [NAME OR IPV4]}. RFC 1035."""

import ipaddress
import json
import socket
import struct
import sys

A, PTR, IN = 1, 12, 1


def labels(name):
    parts = [part for part in name.split(".") if part]
    return b"".join(bytes([len(part)]) + part.encode() for part in parts) + b"\0"


def question(query):
    parts, at = [], 12
    while query[at]:
        parts.append(query[at + 1:at + 1 + query[at]].decode("ascii", "replace").lower())
        at += 1 + query[at]
    kind, = struct.unpack(">H", query[at + 1:at + 3])
    return ".".join(parts), kind, query[12:at + 5]


def answer(query, zones):
    """The reply, or None for a silent name or address."""
    name, kind, asked = question(query)
    is_reverse = name.endswith(".in-addr.arpa")
    key = ".".join(reversed(name.split(".")[:4])) if is_reverse else name
    if key in zones["silent"]:
        return None
    records = []
    if is_reverse and kind == PTR and key in zones["claims"]:
        records = [labels(zones["claims"][key])]
    elif kind == A:
        records = [ipaddress.ip_address(one).packed for one in zones["names"].get(name, [])]
    known = records or key in zones["claims"] or name in zones["names"]
    head = query[:2] + struct.pack(">HHHHH", 0x8580 | (0 if known else 3), 1, len(records), 0, 0)
    body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, IN, 0, len(one)) + one for one in records)
    return head + asked + body


def main(address, path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind((address, 53))
        print("ready", flush=True)
        while True:
            query, sender = listening.recvfrom(512)
            with open(path, encoding="ascii") as file:
                reply = answer(query, json.load(file))
            if reply is not None:
                listening.sendto(reply, sender)


main(*sys.argv[1:])
