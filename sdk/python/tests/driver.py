"""Makes calls with the SDK, one for each line of input: see internal/e2e/sdk/README.md."""

import base64
import json
import pickle
import pprint
import sys
import time
import traceback
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import coax  # noqa: E402


def carry_out(order):
    outcome = {"id": order["id"], "attempts": []}
    options = dict(order.get("options", {}))
    offset = options.pop("clock_offset", 0)
    seen = []
    try:
        client = coax.Client(
            order["base_url"],
            order["api_key"],
            order["api_secret"],
            order.get("ca_cert") or None,
            on_attempt=seen.append,
            clock=lambda: time.time() + offset,
            **options,
        )
    except ValueError as error:
        return {**outcome, "outcome": "failed", "code": "INVALID_CONFIG", "message": str(error)}
    with client:
        if order["operation"] == "sign":
            return {**outcome, "signature": signature(client, order)}
        call = prepare(client, SimpleNamespace(**order))
        del order  # it has the secret, and the trace shows the variables
        result, error, trace = run(call)
        outcome["attempts"] = [asdict(attempt) for attempt in seen]
        outcome["shown"] = shown(client, result, error, *seen) + trace
    if error is None:
        outcome["outcome"] = "success"
        outcome["replayed"] = result.get("replayed", False)
        data = result
    else:
        outcome.update(described(error))
        data = error.data if error.operation is None else error.operation
    outcome["transaction_id"] = data.get("transaction_id", "")
    outcome["data"] = wire(data)
    return outcome


def signature(client, order):
    body = base64.b64decode(order.get("body_base64", ""))
    return client.sign(
        order["method"], order["path"], order.get("query", ""), body, order["timestamp"], order["nonce"]
    )


def prepare(client, order):
    key = getattr(order, "idempotency_key", "")
    arguments = getattr(order, "arguments", {})
    body = getattr(order, "body", {})
    return {
        "activate": lambda: client.activate(body, key),
        "renew": lambda: client.renew(body, key),
        "advance-renew": lambda: client.advance_renew(body, key),
        "balance": lambda: client.balance(),
        "plans": lambda: client.plans(),
        "subscription": lambda: client.subscription(**arguments),
        "transaction": lambda: client.transaction(**arguments),
        "await": lambda: client.await_settled(key, timeout=60),
    }[order.operation]


def run(call):
    try:
        return call(), None, ""
    except coax.Error as error:
        with_variables = traceback.TracebackException.from_exception(error, capture_locals=True)
        return None, error, traceback.format_exc() + "".join(with_variables.format())


def described(error):
    return {
        "outcome": "pending" if error.undecided else "failed",
        "code": error.code,
        "status": error.status,
        "class": type(error).__name__,
        "message": error.message,
        "request_id": error.request_id,
        "undecided": error.undecided,
        "retry_after": error.retry_after,
        "fields": error.fields,
    }


def shown(*values):
    text = ""
    for value in values:
        text += f"{value} {value!r} {value:} {pprint.pformat(value)} {json.dumps(value, default=str)}\n"
        if hasattr(value, "__dict__"):
            text += f"{vars(value)} {pprint.pformat(vars(value))}\n"
            text += f"{[vars(part) for part in vars(value).values() if hasattr(part, '__dict__')]}\n"
        if isinstance(value, dict):
            text += f"{dict(value)} {list(value.items())} {json.dumps(dict(value), default=str)}\n"
        try:
            text += f"{pickle.dumps(value)}\n"
        except TypeError as error:
            text += f"{error}\n"
    return text


def wire(value):
    """Return a result as it was on the wire, with amounts as text."""
    if isinstance(value, dict):
        return {name: wire(value[name]) for name in value}
    if isinstance(value, list):
        return [wire(item) for item in value]
    return str(value) if isinstance(value, Decimal) else value


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(carry_out(json.loads(line))), flush=True)
