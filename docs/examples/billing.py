"""Activate or renew a subscriber from billing software; Python's standard library is enough.

    billing.py CREDENTIALS (activate|renew|advance-renew) IDEMPOTENCY_KEY BODY

CREDENTIALS is a JSON file with base_url, api_key, api_secret and, for a service whose
certificate is its own, ca_cert. BODY is the JSON object to send.

Exits 0 if it was done and 2 if it was refused. Anything else means that the
outcome is not known: leave the order open and run the same again later, with the same key.
"""

import decimal
import hashlib
import hmac
import http.client
import json
import re
import secrets
import ssl
import sys
import time
import urllib.parse


def canonical_query(raw):
    """The query as it is signed: decoded, encoded again in one way only, sorted."""

    def again(text):
        text = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes.fromhex(m[1].decode()), text.replace(b"+", b" "))
        return urllib.parse.quote(text, safe="")

    pairs = [part.partition(b"=") for part in raw.encode().split(b"&")] if raw else []
    return "&".join("=".join(pair) for pair in sorted((again(name), again(value)) for name, _, value in pairs))


def signature(secret, method, path, query, timestamp, nonce, body):
    lines = [
        method,
        path,
        canonical_query(query) if method == "GET" else "",
        timestamp,
        nonce,
        hashlib.sha256(body).hexdigest(),
    ]
    return hmac.new(secret.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()


ENVELOPE = {"success", "request_id", "code", "message", "data"}


class Lost(Exception):
    """No answer of the service's came; nobody knows whether the request arrived."""


class Undecided(SystemExit):
    def __init__(self, key, why):
        super().__init__(f"undecided ({why}): keep the key {key} and run the same again later; never take a new one")


def wanted(headers, pause):
    """The seconds that Retry-After asks for; our own pause if it is absent, or a date from some proxy."""
    after = headers.get("Retry-After", "")
    return int(after) if re.fullmatch("[1-9][0-9]{0,3}", after) else pause


class Service:
    def __init__(self, credentials):
        with open(credentials) as file:
            self.given = json.load(file)
        self.base = urllib.parse.urlsplit(self.given["base_url"].rstrip("/"))
        if self.base.scheme != "https" or not self.base.path.endswith("/api/v1"):
            raise SystemExit(f"{credentials}: base_url must begin with https:// and end in /api/v1")
        self.trust = ssl.create_default_context(cafile=self.given.get("ca_cert"))
        self.ahead = None  # seconds by which the service's clock is ahead of ours, once it has said so

    def once(self, method, target, body, key):
        """Sends one signed request. Returns status, headers and the service's answer, or raises Lost."""
        # New for every sending, also when the same request is sent again.
        timestamp, nonce = str(int(time.time() + (self.ahead or 0))), secrets.token_hex(16)
        # What a proxy in front adds to the path is not signed.
        path, _, query = ("/api/v1" + target).partition("?")
        headers = {
            "X-API-Key": self.given["api_key"],
            "X-Timestamp": timestamp,
            "X-Nonce": nonce,
            "X-Signature": signature(self.given["api_secret"], method, path, query, timestamp, nonce, body),
        }
        if method == "POST":
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
        connection = http.client.HTTPSConnection(self.base.netloc, context=self.trust, timeout=60)
        try:
            connection.request(method, self.base.path + target, body or None, headers)
            response = connection.getresponse()
            # Money is read as decimals: 0.1 + 0.2 is not 0.3 in binary.
            answer = json.loads(response.read(), parse_float=decimal.Decimal)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Lost(str(error) or type(error).__name__)
        finally:
            connection.close()
        # Only the envelope is the service's own word. A page or a JSON text of something in
        # between says nothing about the operation, whatever its status.
        if not isinstance(answer, dict) or not ENVELOPE <= answer.keys() or not isinstance(answer["data"], dict):
            raise Lost(f"status {response.status}, but not from the service")
        return response.status, response.headers, answer

    def send(self, method, target, body=b"", key=None):
        """The same, and once more by the service's clock if ours turns out to be wrong."""
        status, headers, answer = self.once(method, target, body, key)
        if answer["code"] == "TIMESTAMP_EXPIRED" and self.ahead is None:
            self.ahead = answer["data"]["server_time"] - time.time()
            status, headers, answer = self.once(method, target, body, key)
        return status, headers, answer

    def operate(self, operation, key, body):
        """Carries out one operation, whatever the network does. The key must be stored already."""
        unclear = None  # why an earlier sending may have been carried out, or may yet be
        for attempt in range(6):
            if attempt:
                time.sleep(pause)
            pause = 2 ** (attempt + 1)
            try:
                status, headers, answer = self.send("POST", "/" + operation, body, key)
            except Lost as lost:
                unclear = str(lost)
                continue
            code = answer["code"]
            password = answer["data"].get("customer", {}).get("password")
            if password:
                # No other answer will have it, not a replay nor a look-up; this may be a 202.
                print("app password for the customer: " + password, flush=True)
            if code in ("PENDING_REVIEW", "REQUEST_IN_PROGRESS"):
                return self.follow(key)
            if code in ("INTERNAL_ERROR", "SERVICE_UNAVAILABLE", "REPLAY_DETECTED"):
                unclear = code
            if status not in (429, 500, 503) and code not in ("OPERATION_IN_PROGRESS", "REPLAY_DETECTED"):
                if unclear and code not in ("OK", "PROVIDER_ERROR"):
                    # This sending was refused. The earlier one may still be on its way.
                    raise Undecided(key, f"{code}: {answer['message']} And earlier: {unclear}")
                return answer  # done, or refused for a reason that waiting does not mend
            pause = wanted(headers, pause)
        raise Undecided(key, unclear or code)

    def follow(self, key):
        """Asks until the operation is settled: minutes as a rule, longer if a person has to decide."""
        question = "/transaction?idempotency_key=" + urllib.parse.quote(key, safe="")
        pause = 2
        for _ in range(60):  # most of an hour
            time.sleep(pause)
            pause = min(pause * 1.5, 60)
            try:
                status, headers, answer = self.send("GET", question)
            except Lost:
                continue
            data = answer["data"]
            if status == 200 and data["status"] in ("success", "failed"):
                return answer | {"code": data["result_code"], "message": data["result_message"]}
            if status not in (200, 429, 500, 503) and answer["code"] != "REPLAY_DETECTED":
                # The question was refused, which says nothing about the operation.
                raise Undecided(key, f"{answer['code']}: {answer['message']}")
            pause = wanted(headers, pause)
        raise Undecided(key, "PENDING_REVIEW")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    credentials, operation, key, body = sys.argv[1:]
    # These bytes are signed, and these are sent: the body is serialised once.
    answer = Service(credentials).operate(operation, key, body.encode())
    print(answer["code"] + ": " + answer["message"])
    if answer["code"] != "OK":
        raise SystemExit(2)
    data = answer["data"]
    print(f"charged {data['wallet']['charged']} {data['currency']}, runs until {data['expiry']['new']}")
    print(f"store with the order: {data['transaction_id']}")
