"""Attacks on signatures: AES-GMAC nonces, relayed logons and reauthentication. MS-SMB2 3.1.4.1, 3.3.5.5."""

import struct

import aes_gmac
from attack_server import VICTIM, Server, attack, content_of, require
from hostile_smb import (
    AT_ONCE, CANCEL, CREATED, DIRECTORY, EXCLUSIVE, FLUSH, LOCK, NOTIFY, READS_AND_WRITES, SETUP, SUCCESS, UNLOCK,
    HostileSmb, lock_body, notify_body, ntlm_negotiate, setup_body, token_of, write_body,
)
from raw_smb import CREATE, MORE_PROCESSING, WRITE, authenticate, create_body

DIRECTORY_ACCESS = 0x100081


def without_signature(message):
    return message[:48] + b"\0" * 16 + message[64:]


@attack("Waits for locks and changes so that AES-GMAC signs an interim and a final reply with one nonce")
def replies_under_gmac_never_share_a_nonce():
    server = Server()
    server.put("file", mode=0o666)
    holder = HostileSmb.of(server, "attacker")
    victim = HostileSmb.of(server, "victim", is_gmac=True)
    _, held = holder.open("file", READS_AND_WRITES)
    _, file = victim.open("file", READS_AND_WRITES)
    _, directory = victim.open("", DIRECTORY_ACCESS, options=DIRECTORY)
    require(holder.lock(held, (0, 10, EXCLUSIVE | AT_ONCE)) == SUCCESS, "the lock is not taken")
    replies = []

    def collect(message_id):
        while True:
            reply = victim.next_reply()
            replies.append(reply)
            if reply.id == message_id and not reply.is_interim:
                return

    lock = victim.post(LOCK, lock_body(file, (0, 10, EXCLUSIVE)))
    replies.append(victim.next_reply())
    holder.lock(held, (0, 10, UNLOCK))
    collect(lock)
    watch = victim.post(NOTIFY, notify_body(directory))
    replies.append(victim.next_reply())
    holder.open("new", READS_AND_WRITES, CREATED)
    collect(watch)
    watch = victim.post(NOTIFY, notify_body(directory))
    replies.append(victim.next_reply())
    victim.post(CANCEL, b"\4\0\0\0", message_id=watch)
    collect(watch)
    require(sum(reply.is_interim for reply in replies) >= 2, "no interim reply was seen")
    nonces = {}
    for reply in replies:
        if not reply.is_signed:
            continue
        require(victim.signature(reply.raw) == reply.raw[48:64], "a signature is wrong")
        earlier = nonces.setdefault((reply.id, reply.flags & 1), reply.raw)
        require(earlier == reply.raw, "two replies are signed with the nonce of message %d", reply.id)


@attack("Computes the authentication key from the two replies, and replaces the victim's FLUSH by a WRITE")
def write_forged_from_two_replies_is_refused():
    server = Server()
    path = server.put("file", "original", mode=0o666)
    other = HostileSmb.of(server, "attacker")
    victim = HostileSmb.of(server, "victim", is_gmac=True)
    _, file = victim.open("file", READS_AND_WRITES)
    _, directory = victim.open("", DIRECTORY_ACCESS, options=DIRECTORY)
    watch = victim.post(NOTIFY, notify_body(directory))
    interim = victim.next_reply().raw
    other.open("new", READS_AND_WRITES, CREATED)
    final = victim.reply(watch).raw
    difference = aes_gmac.added(aes_gmac.polynomial(without_signature(interim)),
                                aes_gmac.polynomial(without_signature(final)))
    tags = [int.from_bytes(message[48:64], "big") for message in (interim, final)]
    candidates = aes_gmac.roots(aes_gmac.added(difference, [tags[0] ^ tags[1]]))
    for candidate in candidates[:4]:
        innocent = victim.message(FLUSH, struct.pack("<HHI", 24, 0, 0) + file)
        forged = innocent[:12] + struct.pack("<H", WRITE) + innocent[14:48] + b"\0" * 16
        forged += write_body(file, b"FORGED")
        tag = int.from_bytes(innocent[48:64], "big")
        tag ^= aes_gmac.evaluate(aes_gmac.polynomial(without_signature(innocent)), candidate)
        tag ^= aes_gmac.evaluate(aes_gmac.polynomial(forged), candidate)
        try:
            victim.send(forged[:48] + tag.to_bytes(16, "big") + forged[64:])
            status = victim.reply(struct.unpack("<Q", forged[24:32])[0]).status
        except (EOFError, ConnectionError):
            break
        require(status != SUCCESS, "a forged WRITE is taken")
    require(content_of(path) == b"original", "the file is %r", content_of(path))


def relayed(smb, is_signed):
    """Reauthenticates the session with relayed messages of the victim's logon."""
    first = ntlm_negotiate()
    reply = smb.request(SETUP, setup_body(first), tree=0, is_signed=is_signed)
    if reply.status != MORE_PROCESSING:
        return reply.status
    last, _ = authenticate(first, token_of(reply), "victim", "password")
    return smb.status(SETUP, setup_body(last), tree=0, is_signed=is_signed)


def opens_unsigned(smb, name):
    """The status of opening a file without a key, or of the tree connect if that fails."""
    smb.key = None
    status = smb.connected("data", is_signed=False)
    if status != SUCCESS:
        return status
    return smb.status(CREATE, create_body(name, READS_AND_WRITES), is_signed=False)


def anonymous(signing, encryption="offered"):
    """A server with a file of the victim, and an anonymous session. If the server requires signing or
    encryption it refuses the session, and the result is None."""
    server = Server(head='guest = "attack-guest"\nsigning = "%s"\nencryption = "%s"' % (signing, encryption))
    server.put("secret", uid=VICTIM, mode=0o600)
    smb = HostileSmb(server)
    is_taken, is_demanded = smb.log_on_anonymously() == SUCCESS, "required" in (signing, encryption)
    require(is_taken or is_demanded, "there is no anonymous session to attack")
    return smb if is_taken else None


def relay_into_anonymous(signing, encryption="offered"):
    smb = anonymous(signing, encryption)
    if smb:
        relayed(smb, False)
        require(opens_unsigned(smb, "secret") != SUCCESS, "the victim's file is opened, unsigned")


@attack("Relays the victim's NTLM exchange into a renewal of an anonymous session; signing required or offered")
def relay_into_anonymous_session_opens_nothing():
    for signing in ("offered", "required"):
        relay_into_anonymous(signing)


@attack("The same where encryption is required")
def relay_past_required_encryption_opens_nothing():
    for signing in ("offered", "required"):
        relay_into_anonymous(signing, "required")


@attack("Relays the victim's NTLM exchange into a renewal of the attacker's own session, whose key the attacker has")
def relay_into_own_session_opens_nothing():
    server = Server(head='signing = "required"')
    server.put("secret", uid=VICTIM, mode=0o600)
    for is_gmac in (False, True):
        smb = HostileSmb.of(server, "attacker", is_gmac=is_gmac)
        require(smb.open("secret", READS_AND_WRITES)[0] != SUCCESS, "the file is open to everybody")
        relayed(smb, True)
        try:
            status = smb.open("secret", READS_AND_WRITES)[0]
        except (EOFError, ConnectionError):
            continue
        require(status != SUCCESS, "the session acts as the victim")


@attack("Relays the victim's NTLM exchange into a new session, and works in it unsigned")
def relay_into_new_session_opens_nothing():
    server = Server(head='signing = "required"')
    server.put("secret", uid=VICTIM, mode=0o600)
    smb = HostileSmb(server)
    first = ntlm_negotiate()
    reply = smb.request(SETUP, setup_body(first))
    last, _ = authenticate(first, token_of(reply), "victim", "password")
    smb.session = reply.session
    require(smb.status(SETUP, setup_body(last)) == SUCCESS, "the exchange itself is refused")
    require(opens_unsigned(smb, "secret") != SUCCESS, "the victim's file is opened, unsigned")


@attack("Renews an anonymous session as a user, unsigned, and connects to a share that is not for guests")
def anonymous_session_renewed_stays_unproven():
    for signing in ("offered", "required"):
        smb = anonymous(signing)
        if smb:
            smb.log_on_again("victim", "password", is_signed=False)
            require(opens_unsigned(smb, "secret") != SUCCESS, "an unsigned session works as a user")


@attack("Sends unsigned requests in an ordinary session of a server that requires signing")
def unsigned_request_in_signed_session_is_refused():
    server = Server(head='signing = "required"')
    server.put("file", mode=0o666)
    smb = HostileSmb.of(server, "victim")
    body = create_body("file", READS_AND_WRITES)
    try:
        require(smb.status(CREATE, body, is_signed=False) != SUCCESS, "an unsigned CREATE is taken")
    except (EOFError, ConnectionError):
        pass
