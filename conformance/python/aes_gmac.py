"""AES-GMAC over GF(2^128) without dependencies. Two messages with one nonce reveal the authentication key
as a root of a polynomial. NIST SP 800-38D; MS-SMB2 3.1.4.1."""

import random

REDUCTION = 0xE1 << 120
ONE = 1 << 127


def multiply(x, y):
    product = 0
    for i in range(127, -1, -1):
        if (y >> i) & 1:
            product ^= x
        x = (x >> 1) ^ REDUCTION if x & 1 else x >> 1
    return product


def inverse(value):
    result, power, exponent = ONE, value, (1 << 128) - 2
    while exponent:
        if exponent & 1:
            result = multiply(result, power)
        power = multiply(power, power)
        exponent >>= 1
    return result


def _substitution_box():
    box, p, q = [0] * 256, 1, 1
    while True:
        p = (p ^ (p << 1) ^ (0x1B if p & 0x80 else 0)) & 0xFF
        for shift in (1, 2, 4):
            q ^= q << shift
        q &= 0xFF
        if q & 0x80:
            q ^= 0x09
        rotations = [((q << n) | (q >> (8 - n))) & 0xFF for n in range(5)]
        box[p] = rotations[0] ^ rotations[1] ^ rotations[2] ^ rotations[3] ^ rotations[4] ^ 0x63
        if p == 1:
            break
    box[0] = 0x63
    return box


BOX = _substitution_box()


def _doubled(byte):
    return ((byte << 1) ^ (0x1B if byte & 0x80 else 0)) & 0xFF


def encrypt_block(key, block):
    """AES-128. FIPS 197."""
    words, constant = [list(key[i:i + 4]) for i in range(0, 16, 4)], 1
    for i in range(4, 44):
        word = words[i - 1]
        if i % 4 == 0:
            word = [BOX[byte] for byte in word[1:] + word[:1]]
            word[0] ^= constant
            constant = _doubled(constant)
        words.append([a ^ b for a, b in zip(words[i - 4], word)])
    keys = [sum(words[i:i + 4], []) for i in range(0, 44, 4)]
    state = [a ^ b for a, b in zip(block, keys[0])]
    for turn in range(1, 11):
        state = [BOX[state[(4 * (column + row) + row) % 16]] for column in range(4) for row in range(4)]
        if turn < 10:
            mixed = []
            for column in range(0, 16, 4):
                a = state[column:column + 4]
                for row in range(4):
                    b, c = a[row], a[(row + 1) % 4]
                    mixed.append(_doubled(b) ^ _doubled(c) ^ c ^ a[(row + 2) % 4] ^ a[(row + 3) % 4])
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[turn])]
    return bytes(state)


def polynomial(message):
    """GHASH's coefficients for a message without ciphertext, the constant first."""
    blocks = [int.from_bytes(message[i:i + 16].ljust(16, b"\0"), "big") for i in range(0, len(message), 16)]
    return [0] + (blocks + [len(message) * 8 << 64])[::-1]


def evaluate(coefficients, point):
    result = 0
    for coefficient in reversed(coefficients):
        result = multiply(result, point) ^ coefficient
    return result


def tag(key, nonce, message):
    authentication_key = int.from_bytes(encrypt_block(key, b"\0" * 16), "big")
    pad = int.from_bytes(encrypt_block(key, nonce + b"\0\0\0\1"), "big")
    return (evaluate(polynomial(message), authentication_key) ^ pad).to_bytes(16, "big")


def seal(key, nonce, associated, text):
    """AES-128-GCM: the tag and the ciphertext."""
    authentication_key = int.from_bytes(encrypt_block(key, b"\0" * 16), "big")
    stream = b"".join(encrypt_block(key, nonce + (2 + i).to_bytes(4, "big")) for i in range(-(-len(text) // 16)))
    sealed = bytes(a ^ b for a, b in zip(text, stream))
    padded = b"".join(part + b"\0" * (-len(part) % 16) for part in (associated, sealed))
    blocks = [int.from_bytes(padded[i:i + 16], "big") for i in range(0, len(padded), 16)]
    lengths = len(associated) * 8 << 64 | len(sealed) * 8
    hashed = evaluate([0] + (blocks + [lengths])[::-1], authentication_key)
    return (hashed ^ int.from_bytes(encrypt_block(key, nonce + b"\0\0\0\1"), "big")).to_bytes(16, "big"), sealed


def _trimmed(coefficients):
    while coefficients and coefficients[-1] == 0:
        coefficients.pop()
    return coefficients


def _divided(dividend, divisor):
    """Quotient and remainder."""
    rest, leading = dividend[:], inverse(divisor[-1])
    quotient = [0] * max(0, len(rest) - len(divisor) + 1)
    while len(rest) >= len(divisor):
        factor, at = multiply(rest[-1], leading), len(rest) - len(divisor)
        quotient[at] = factor
        if factor:
            for i, coefficient in enumerate(divisor):
                rest[at + i] ^= multiply(factor, coefficient)
        rest.pop()
    return quotient, _trimmed(rest)


def _squared(coefficients, modulus):
    square = [0] * (2 * len(coefficients) - 1) if coefficients else []
    for i, coefficient in enumerate(coefficients):
        square[2 * i] = multiply(coefficient, coefficient)
    return _divided(square, modulus)[1]


def added(first, second):
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    rest = [0] * (len(longer) - len(shorter))
    return _trimmed([a ^ b for a, b in zip(longer, shorter + rest)])


def _common_divisor(first, second):
    while second:
        first, second = second, _divided(first, second)[1]
    leading = inverse(first[-1])
    return [multiply(leading, coefficient) for coefficient in first]


def roots(coefficients):
    """All roots in GF(2^128): Berlekamp's trace algorithm."""
    modulus = _trimmed(coefficients[:])
    power = [0, ONE]
    for _ in range(128):
        power = _squared(power, modulus)
    rest = added(power, [0, ONE])
    pending, found = [_common_divisor(modulus, rest) if rest else modulus], []
    while pending:
        factor = pending.pop()
        if len(factor) == 2:
            found.append(multiply(factor[0], inverse(factor[1])))
        while len(factor) > 2:
            term = _divided([0, random.getrandbits(128)], factor)[1]
            trace = term
            for _ in range(127):
                term = _squared(term, factor)
                trace = added(trace, term)
            divisor = _common_divisor(factor, trace) if trace else []
            if 1 < len(divisor) < len(factor):
                pending += [divisor, _divided(factor, divisor)[0]]
                break
    return found
