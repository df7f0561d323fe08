"""Checks of what the program passes in. Nothing is sent if one fails."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import ssl
from functools import lru_cache
from typing import Any, Mapping, NamedTuple, Optional, Union
from urllib.parse import quote, urlsplit

from .codes import Code
from .errors import InvalidRequestError
from .exchange import API_PATH

#: The fields by their names on the wire, or JSON that is sent as it is.
Body = Union[Mapping[str, Any], str, bytes]


class Base(NamedTuple):
    scheme: str
    netloc: str
    host: str
    port: int
    prefix: str  # the path before /api/v1


def read_base(url: str) -> Base:
    hint = f"the base address {url!r} is not one: write it as https://HOST/api/v1"
    if not isinstance(url, str) or re.search(r"[^!-~]|[?#@\\]", url):
        raise ValueError(hint)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(hint) from None
    path = parts.path[:-1] if parts.path.endswith("/") else parts.path
    if not parts.hostname or port == 0 or not path.endswith(API_PATH):
        raise ValueError(hint)
    # Requests have a key, a signature and customers' passwords. Plain HTTP is for development
    # on loopback only.
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise ValueError(f"the base address {url!r} has to begin with https://")
    default = 443 if parts.scheme == "https" else 80
    return Base(parts.scheme, parts.netloc, parts.hostname, port or default, path[: -len(API_PATH)])


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_credential(name: str, text: str) -> None:
    if not isinstance(text, str) or not text:
        raise ValueError(f"an {name} is needed")
    # A text from a file often ends with a line feed, which is invalid in a header.
    if re.search("[^!-~]", text):
        raise ValueError(f"the {name} has a space, a line feed or another character that none has: strip it")


def tls_context(ca_cert: Union[str, os.PathLike[str], None]) -> ssl.SSLContext:
    """Return a context that trusts one certificate authority only, or else the system's."""
    if ca_cert is None:
        return _system_context()
    try:
        return _new_context(ca_cert)
    except OSError as error:
        raise ValueError(f"the CA certificate {str(ca_cert)!r} cannot be read: {error}") from error


@lru_cache(maxsize=None)
def _system_context() -> ssl.SSLContext:
    """Return the context that all clients share: reading the system's authorities takes long."""
    return _new_context(None)


def _new_context(ca_cert: Union[str, os.PathLike[str], None]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_cert)
    context.set_alpn_protocols(["http/1.1"])
    return context


def check_key(call: str, key: str) -> None:
    if key is None or key == "":
        message = "An operation needs an idempotency key; make one, store it, and call with it. Nothing was sent."
        raise InvalidRequestError(message, call=call, code=Code.MISSING_IDEMPOTENCY_KEY)
    if not isinstance(key, str) or not re.fullmatch("[A-Za-z0-9_.:-]{8,100}", key):
        message = "An idempotency key has 8 to 100 characters from A-Z, a-z, 0-9, _ . : and -. Nothing was sent."
        raise InvalidRequestError(message, call=call, code=Code.INVALID_IDEMPOTENCY_KEY)


def serialise(call: str, body: Body) -> bytes:
    """Return the bytes that are signed and sent in every attempt."""
    try:
        if isinstance(body, Mapping):
            return json.dumps(dict(body), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if isinstance(body, str):
            return body.encode()
        if isinstance(body, (bytes, bytearray)):
            body.decode()
            return bytes(body)
    except UnicodeError:
        fields = {}
        if isinstance(body, Mapping):
            fields = {name: "It is not in UTF-8." for name, text in body.items() if not _is_unicode(text)}
        raise _not_utf8(call, fields) from None
    raise TypeError(f"a body is a mapping, a str or bytes, not {type(body).__name__}")


def encode_query(call: str, **fields: Optional[str]) -> str:
    """Return a query of the first field that has a value."""
    for name, value in fields.items():
        if value:
            try:
                return f"{name}={quote(value, safe='')}"
            except UnicodeError:
                raise _not_utf8(call, {name: "It is not in UTF-8."}) from None
    return ""


def _not_utf8(call: str, fields: Mapping[str, str]) -> InvalidRequestError:
    message = "Texts have to be in UTF-8. Nothing was sent."
    return InvalidRequestError(message, call=call, code=Code.VALIDATION_ERROR, fields=dict(fields))


def _is_unicode(text: object) -> bool:
    """Tell whether a text can be encoded: one that was decoded wrongly may have surrogates."""
    try:
        str(text).encode()
        return True
    except UnicodeError:
        return False
