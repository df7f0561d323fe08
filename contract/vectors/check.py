#!/usr/bin/env python3
"""A second reading of the signing rules, and the source of the vectors' values.

    check.py                check every vector beside this file
    check.py --fill FILE    compute the expected values that FILE's vectors lack
    check.py --canonical    read base64 raw queries, one a line; print canonical ones

It is written from the specification and shares nothing with the Go package: where
the Go code walks bytes, this one uses regular expressions and a table. When the
two agree, that says something about the rules and not about one way of coding them.

Python's standard library only, 3.8 or later. Python's urllib.parse is left out
on purpose: its parser drops empty parts and its quoting has opinions.
"""

import base64
import hashlib
import hmac
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent

# --- the rules ---------------------------------------------------------------

UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
ENCODED = [bytes([b]) if b in UNRESERVED else b"%%%02X" % b for b in range(256)]
ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
SIGNATURE = re.compile(r"[0-9a-f]{64}")
TO_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def decode(text):
    # '+' goes first: afterwards it could no longer be told from an escaped %2B.
    # What ESCAPE does not match, a stray '%' for one, stays as it is.
    return ESCAPE.sub(lambda m: bytes.fromhex(m[1].decode("ascii")), text.replace(b"+", b" "))


def encode(data):
    return b"".join(ENCODED[b] for b in data)


def canonical_query(raw):
    """Canonical form of the raw query's bytes."""
    if not raw:
        return b""
    pairs = []
    for part in raw.split(b"&"):
        name, _, value = part.partition(b"=")
        pairs.append((encode(decode(name)), encode(decode(value))))
    # Tuples, not joined text: '=' sorts after '-', '.', '%' and the digits, so
    # sorting "name=value" strings would put "a-=1" before "a=1".
    return b"&".join(name + b"=" + value for name, value in sorted(pairs))


def body_of(v):
    if "body_base64" in v:
        return base64.b64decode(v["body_base64"], validate=True)
    return v["body"].encode("utf-8")


def expected(v):
    """Every value that follows from the request in vector v."""
    method = v["method"].translate(TO_UPPER)
    query = "" if method == "POST" else canonical_query(v["raw_query"].encode("utf-8")).decode("ascii")
    digest = hashlib.sha256(body_of(v)).hexdigest()
    lines = [method, v["path"], query, v["timestamp"], v["nonce"], digest]
    text = "\n".join(lines)
    return {
        "canonical_query": query,
        "body_sha256": digest,
        "lines": lines,
        "string_to_sign": text,
        "signature": mac(v["secret"], text),
    }


def mac(secret, text):
    return hmac.new(secret.encode("utf-8"), text.encode("utf-8"), hashlib.sha256).hexdigest()


def signable(v):
    """Whether any signature can be right: a secret, and no line inside a line."""
    return v["secret"] != "" and not any("\n" in v[f] for f in ("method", "path", "timestamp", "nonce"))


def verifies(v, signature):
    if not signable(v) or not SIGNATURE.fullmatch(signature):
        return False
    return hmac.compare_digest(expected(v)["signature"], signature)


# --- the files ---------------------------------------------------------------

REQUEST = ["name", "secret", "method", "path", "raw_query", "timestamp", "nonce"]
VALUES = ["canonical_query", "body_sha256", "lines", "string_to_sign", "signature"]


def shape_faults(v, fields, optional=()):
    for f in fields:
        if f not in v:
            yield f"{f} is missing"
    if ("body" in v) == ("body_base64" in v):
        yield "exactly one of body and body_base64 is needed"
    for f in v:
        if f not in fields and f not in optional and f not in ("body", "body_base64"):
            yield f"{f} is not a field of a vector"


def faults_of_valid(v):
    wrong = list(shape_faults(v, REQUEST + VALUES))
    if wrong:
        return wrong
    want = expected(v)
    wrong = [f"{f} is {v[f]!r}; want {want[f]!r}" for f in VALUES if v[f] != want[f]]
    if not verifies(v, v["signature"]):
        wrong.append("signature does not verify")
    return wrong


def faults_of_invalid(v):
    wrong = list(shape_faults(v, REQUEST + ["reason", "signature"], ("correct_signature", "made_from")))
    if wrong:
        return wrong
    if verifies(v, v["signature"]):
        wrong.append("signature verifies and must not")
    # A wrong signature proves little if it is wrong for a reason other than the
    # one stated, so what it was made from and what it should have been are checked too.
    if "made_from" in v and v["signature"] != mac(**v["made_from"]):
        wrong.append("signature is not made from made_from")
    if signable(v) and v.get("correct_signature") != expected(v)["signature"]:
        wrong.append(f"correct_signature is not {expected(v)['signature']}")
    if not signable(v) and "correct_signature" in v:
        wrong.append("correct_signature is given where none can be right")
    return wrong


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def check_all():
    passed = failed = 0
    seen = set()
    for path in sorted(HERE.glob("*.json")):
        doc = load(path)
        faults_of = faults_of_valid if doc["verifies"] else faults_of_invalid
        for v in doc["vectors"]:
            wrong = faults_of(v)
            if v.get("name") in seen:
                wrong.append("another vector has this name")
            seen.add(v.get("name"))
            if wrong:
                failed += 1
                for text in wrong:
                    print(f"FAIL {path.name}: {v.get('name')}: {text}")
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed")
    # No vectors at all is a lost folder, not a success.
    return 0 if passed and not failed else 1


def fill(path):
    doc = load(path)
    for v in doc["vectors"]:
        if doc["verifies"]:
            computed = expected(v)
        else:
            computed = {"correct_signature": expected(v)["signature"]} if signable(v) else {}
            if "made_from" in v:
                computed["signature"] = mac(**v["made_from"])
        for field, value in computed.items():
            # What is there stays: a published value that turns out wrong is for
            # a person to look at, never for a tool to paint over.
            v.setdefault(field, value)
    path.write_text(json.dumps(doc, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def print_canonical():
    for line in sys.stdin.buffer:
        raw = base64.b64decode(line.strip(), validate=True)
        sys.stdout.buffer.write(canonical_query(raw) + b"\n")
    return 0


def main(args):
    if not args:
        return check_all()
    if args == ["--canonical"]:
        return print_canonical()
    if len(args) == 2 and args[0] == "--fill":
        return fill(pathlib.Path(args[1]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
