"""The signature of a request. contract/vectors has the rules and their corner cases."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Callable, Union
from urllib.parse import quote

Text = Union[str, bytes]

#: Signs (method, path, query, body, timestamp, nonce) and returns lower-case hex.
Signer = Callable[[str, str, Text, Text, Union[str, int], str], str]


def signer(secret: str) -> Signer:
    """Return a function that signs with a secret. The secret is in its closure, and so not in
    ``vars()`` or any dump of the object that keeps the function."""
    key = secret.encode()

    def sign(method: str, path: str, query: Text, body: Text, timestamp: Union[str, int], nonce: str) -> str:
        message = string_to_sign(method, path, query, body, timestamp, nonce)
        return hmac.new(key, message, hashlib.sha256).hexdigest()

    return sign


def string_to_sign(
    method: str, path: str, query: Text, body: Text, timestamp: Union[str, int], nonce: str
) -> bytes:
    # bytes.upper changes a-z only; str.upper would turn "poſt", with a long s, into POST.
    verb = method.encode().upper()
    lines = [
        verb,
        path.encode(),
        b"" if verb == b"POST" else canonical_query(query),
        str(timestamp).encode(),
        nonce.encode(),
        hashlib.sha256(_bytes(body)).hexdigest().encode(),
    ]
    return b"\n".join(lines)


def canonical_query(raw: Text) -> bytes:
    """Return the query as it is signed: decoded once, encoded in one way only, and sorted."""
    if not raw:
        return b""
    pairs = []
    for part in _bytes(raw).split(b"&"):
        name, _, value = part.partition(b"=")
        pairs.append((_encode_again(name), _encode_again(value)))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs)).encode()


def _encode_again(text: bytes) -> str:
    text = text.replace(b"+", b" ")
    text = re.sub(rb"%([0-9A-Fa-f]{2})", lambda digits: bytes.fromhex(digits[1].decode()), text)
    return quote(text, safe="")


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)
