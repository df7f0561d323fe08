"""Activate or renew a subscriber from billing software; Python's standard library is enough.

    billing.py CREDENTIALS (activate|renew|advance-renew) IDEMPOTENCY_KEY BODY

CREDENTIALS is a JSON file with base_url, api_key, api_secret and, for a service whose
certificate is its own, ca_cert. BODY is the JSON object to send.
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


class Service:
    def __init__(self, credentials):
        with open(credentials) as file:
            self.given = json.load(file)
        self.base = urllib.parse.urlsplit(self.given["base_url"])
        self.trust = ssl.create_default_context(cafile=self.given.get("ca_cert"))

    def send(self, method, target, body=b"", key=None):
        """One signed request. Returns status, headers and the answer; raises if none came."""
        path, _, query = (self.base.path + target).partition("?")
        # New for every sending, also when the same request is sent again.
        timestamp, nonce = str(int(time.time())), secrets.token_hex(16)
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
            return response.status, response.headers, json.loads(response.read(), parse_float=decimal.Decimal)
        finally:
            connection.close()

    def operate(self, operation, key, body):
        """Carries out one operation, whatever the network does. The key must be stored already."""
        for attempt in range(6):
            pause = 2**attempt / 2
            try:
                status, headers, answer = self.send("POST", "/" + operation, body, key)
            except (OSError, http.client.HTTPException, ValueError):
                status = None  # lost on the way, in one direction or the other: nobody knows
            if status is not None:
                code = answer["code"]
                if code in ("PENDING_REVIEW", "REQUEST_IN_PROGRESS"):
                    return self.follow(key)
                if status not in (429, 500, 503) and code != "OPERATION_IN_PROGRESS":
                    return answer  # done, or refused for a reason that waiting does not mend
                pause = int(headers.get("Retry-After", pause))
            time.sleep(pause)
        raise SystemExit(f"undecided: keep the key {key} and send the same again later; never take a new one")

    def follow(self, key):
        """Asks until the operation is settled: minutes as a rule, longer if a person has to decide."""
        while True:
            time.sleep(1)
            try:
                status, _, answer = self.send("GET", "/transaction?idempotency_key=" + urllib.parse.quote(key, safe=""))
            except (OSError, http.client.HTTPException, ValueError):
                continue
            if status == 200 and answer["data"]["status"] in ("success", "failed"):
                return answer | {"code": answer["data"]["result_code"], "message": answer["data"]["result_message"]}
            if status not in (200, 429, 500, 503):
                return answer


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    credentials, operation, key, body = sys.argv[1:]
    # These bytes are signed, and these are sent: the body is serialised once.
    answer = Service(credentials).operate(operation, key, body.encode())
    print(answer["code"] + ": " + answer["message"])
    if answer["code"] == "OK":
        data = answer["data"]
        print(f"charged {data['wallet']['charged']} {data['currency']}, runs until {data['expiry']['new']}")
        print(f"store with the order: {data['transaction_id']}")
