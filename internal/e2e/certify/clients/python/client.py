"""A client of the Coax API written by hand, with requests and a pool of threads: `client.py [FAULT [STATE_FILE]]`.

It reads one JSON order per line and answers each with one JSON line. Without a fault it is correct; a fault is a
module in faults/ that overrides one decision of Call.
"""
import argparse
import hashlib
import hmac
import importlib
import json
import queue
import random
import re
import secrets
import ssl
import sys
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote, urlsplit

import requests
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

SEND, POLL = "POST", "GET"
Next = namedtuple("Next", "step pause")
Outcome = namedtuple("Outcome", "outcome code transaction_id charged", defaults=["", "", ""])


class Answer:
    """What one attempt came to. Without a code it is not the service's answer; with status 0 there is none at all."""

    def __init__(self, status=0, envelope=None, retry_after=None, sent=True, untrusted=False, error=""):
        self.status, self.envelope, self.retry_after = status, envelope or {}, retry_after
        self.sent = sent  # False if the connection was never made
        self.untrusted = untrusted  # the server's certificate was refused
        self.error = error
        self.code = self.envelope.get("code", "")
        self.data = self.envelope.get("data") if isinstance(self.envelope.get("data"), dict) else {}
        self.is_2xx = 200 <= status < 300


class Call:
    """One order, from the first attempt to its outcome. Every decision is a method of its own."""

    total_timeout, attempt_timeout, connect_timeout = 180, 60, 10
    max_retry_after, max_answer_bytes = 120, 8 << 20
    needs_state_file, state_file = False, None
    clock_offsets = {}  # seconds to add to the system's clock, by API key

    def __init__(self, order, body):
        self.order, self.body, self.key = order, body, order["idempotency_key"]
        self.deadline = time.monotonic() + self.total_timeout
        self.tries = {SEND: 0, POLL: 0}
        self.undecided = self.clock_corrected = False
        self.code = self.transaction_id = ""  # as far as they are known

    def carry_out(self):
        if urlsplit(self.order["base_url"]).scheme != "https":
            raise ValueError("base_url does not begin with https://")
        ssl.create_default_context(cafile=self.order["ca_cert"])  # raises unless it is a certificate
        if not re.fullmatch(r"[A-Za-z0-9_.:-]{8,100}", self.key):
            return Outcome("failed", "INVALID_IDEMPOTENCY_KEY")
        step = SEND
        while True:
            self.tries[step] += 1
            answer = self.attempt(step)
            self.remember(answer)
            decision = self.decide(step, answer)
            if isinstance(decision, Next) and time.monotonic() + decision.pause > self.deadline:
                decision = self.out_of_time()
            self.log(step, answer, decision)
            if isinstance(decision, Outcome):
                return decision
            step = decision.step
            time.sleep(decision.pause)

    # One attempt

    def attempt(self, step):
        """Exchanges in a thread of its own: the time-outs of requests are for one read, not for the whole answer."""
        seconds = max(0.1, min(self.attempt_timeout, self.deadline - time.monotonic()))
        answers = queue.SimpleQueue()
        threading.Thread(target=lambda: answers.put(self.exchange(step, seconds)), daemon=True).start()
        try:
            return answers.get(timeout=seconds)
        except queue.Empty:
            return Answer(error="time-out")

    def exchange(self, step, seconds):
        path, query, body = "/" + self.order["operation"], "", self.body
        if step == POLL:
            path, query, body = "/transaction", "idempotency_key=" + quote(self.key, safe=""), b""
        url = self.order["base_url"].rstrip("/") + path
        headers = self.sign(step, urlsplit(url).path, query, body)
        try:
            return self.read(*self.request(step, url + (query and "?" + query), headers, body, seconds))
        except Exception as error:
            reason = getattr(error.args[0] if error.args else None, "reason", None)  # urllib3's error
            untrusted = isinstance(error, requests.exceptions.SSLError) and "certificate" in repr(reason).lower()
            unsent = untrusted or isinstance(reason, (NewConnectionError, ConnectTimeoutError))
            return Answer(sent=not unsent, untrusted=untrusted, error=type(reason or error).__name__)

    def sign(self, method, path, query, body):
        timestamp = str(int(time.time() + self.clock_offsets.get(self.order["api_key"], 0)))
        nonce = secrets.token_hex(16)
        text = "\n".join([method, path, query, timestamp, nonce, hashlib.sha256(body).hexdigest()])
        signature = hmac.new(self.order["api_secret"].encode(), text.encode(), hashlib.sha256).hexdigest()
        headers = {"X-API-Key": self.order["api_key"], "X-Timestamp": timestamp, "X-Nonce": nonce, "X-Signature": signature}
        if method == "POST":
            headers.update({"Content-Type": "application/json", "Idempotency-Key": self.key})
        return headers

    def request(self, method, url, headers, body, seconds):
        session = requests.Session()
        session.trust_env = False  # no proxies, CA bundles or .netrc from the environment
        session.get_redirect_target = lambda response: None  # else Location is parsed although it is not followed
        with session, session.request(
            method, url, data=body or None, headers={**headers, "Accept-Encoding": "identity", "Connection": "close"},
            timeout=(min(self.connect_timeout, seconds), seconds), verify=self.order["ca_cert"],
            allow_redirects=False, stream=True,
        ) as response:
            content = b""
            for chunk in response.iter_content(65536):
                content += chunk
                if len(content) > self.max_answer_bytes:
                    raise ValueError("the answer is too long")
            length = response.headers.get("Content-Length", "")
            chunked = "Transfer-Encoding" in response.headers
            if length.isdigit() and not chunked and response.raw.tell() < int(length):
                raise ValueError("the answer was cut")  # urllib3 1 does not notice
            return response.status_code, response.headers, content

    def read(self, status, headers, content):
        seconds = headers.get("Retry-After", "")
        retry_after = int(seconds) if re.fullmatch(r"[0-9]{1,9}", seconds) else None
        try:
            envelope = json.loads(content, parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError):
            envelope = None
        if isinstance(envelope, dict) and isinstance(envelope.get("code"), str) and not 300 <= status < 400:
            answer = Answer(status, envelope, retry_after)
            if (answer.data.get("idempotency_key") or self.key) == self.key:  # else it is about another operation
                return answer
        return Answer(status, None, retry_after)

    def remember(self, answer):
        if answer.data.get("idempotency_key") == self.key:
            self.transaction_id = answer.data.get("transaction_id") or self.transaction_id
        self.code = answer.data.get("result_code") or answer.code or self.code

    # What follows from an answer: Next or Outcome

    def decide(self, step, answer):
        return self.success(answer) or (self.after_send(answer) if step == SEND else self.after_poll(answer))

    def success(self, answer):
        """The outcome if the answer is a success with everything that is needed to book it."""
        data, wallet = answer.data, answer.data.get("wallet")
        charged = wallet.get("charged") if isinstance(wallet, dict) else None
        if (answer.status == 200 and answer.envelope.get("success") is True and data.get("status") == "success"
                and data.get("idempotency_key") == self.key and isinstance(data.get("transaction_id"), str)
                and isinstance(charged, (int, Decimal)) and 0 <= charged < 10**12):
            return Outcome("success", "OK", data["transaction_id"], f"{Decimal(charged):.2f}")
        return None

    def after_send(self, answer):
        if answer.code in ("PROVIDER_ERROR", "IDEMPOTENCY_KEY_REUSED"):  # final, whatever became of earlier attempts
            return Outcome("failed", self.code, self.transaction_id)
        if answer.code == "REQUEST_IN_PROGRESS" or answer.code and answer.is_2xx:
            self.undecided = True
            return Next(POLL, self.poll_pause())
        self.undecided = self.undecided or self.may_have_run(answer)
        return self.after_failure(SEND, answer)

    def after_poll(self, answer):
        if answer.status == 200 and answer.data.get("status") == "failed":
            return Outcome("failed", self.code, self.transaction_id)
        if answer.code and answer.is_2xx:
            return Next(POLL, self.poll_pause())
        if answer.code == "TRANSACTION_NOT_FOUND":  # nothing was reserved so far
            return Next(SEND, self.growing_pause(self.tries[SEND]))
        return self.after_failure(POLL, answer)

    def after_failure(self, step, answer):
        if answer.code == "TIMESTAMP_EXPIRED" and self.correct_clock(answer):
            return Next(step, 0)
        if not self.is_retried(answer):
            return self.refused()
        if answer.status == 429:
            return self.after_429(step, answer)
        if (answer.retry_after or 0) > self.max_retry_after:
            return self.refused()
        pause = self.growing_pause(self.tries[step])
        return Next(step, max(2.0, pause) if answer.code == "OPERATION_IN_PROGRESS" else pause)

    def after_429(self, step, answer):
        if not answer.retry_after:
            return Next(step, self.growing_pause(self.tries[step]))
        if answer.retry_after > self.max_retry_after:
            return self.refused()
        return Next(step, answer.retry_after * random.uniform(1.01, 1.1))

    def refused(self):
        """A refusal says nothing about an earlier attempt that was not answered."""
        return Outcome("pending" if self.undecided else "failed", self.code, self.transaction_id)

    def out_of_time(self):
        return self.refused()

    def may_have_run(self, answer):
        if not answer.code:
            return answer.sent
        not_run = answer.code in ("PROVIDER_ERROR", "PLANS_UNAVAILABLE")
        return answer.code == "REPLAY_DETECTED" or answer.status >= 500 and not not_run

    def is_retried(self, answer):
        if answer.status == 0:
            return not answer.untrusted
        if not answer.code:
            return answer.is_2xx or answer.status == 429 or answer.status >= 500
        return answer.status in (429, 500, 502, 503, 504) or answer.code in ("REPLAY_DETECTED", "OPERATION_IN_PROGRESS")

    def correct_clock(self, answer):
        server_time = answer.data.get("server_time")
        if self.clock_corrected or not isinstance(server_time, int):
            return False
        self.clock_corrected = True
        self.clock_offsets[self.order["api_key"]] = server_time - time.time()
        return True

    def growing_pause(self, tries, longest=15):
        return min(longest, 0.5 * 2 ** min(tries - 1, 10)) * random.uniform(1, 1.5)

    def poll_pause(self):
        return self.growing_pause(self.tries[POLL] + 1, longest=4)

    def log(self, step, answer, decision):
        got = f"{answer.status} {answer.code}" if answer.status else f"no answer ({answer.error})"
        then = decision.outcome if isinstance(decision, Outcome) else f"{decision.step} in {decision.pause:.1f} s"
        sys.stderr.write(f"{self.order['id']}: {step} {self.tries[step]}: {got}; {then}\n")


def source_of(text, name):
    """The value of a member of a JSON object exactly as it is written, so that no number changes."""
    before_name, before_value, decode = re.compile(r"[\s{,]*"), re.compile(r"[\s:]*"), json.JSONDecoder().raw_decode
    at, member = 0, None
    while member != name:
        member, at = decode(text, before_name.match(text, at).end())
        start = before_value.match(text, at).end()
        at = decode(text, start)[1]
    return text[start:at]


def answer_order(call_class, line, output):
    order, call = json.loads(line), None
    try:
        call = call_class(order, source_of(line, "body").encode())
        outcome = call.carry_out()
    except Exception as error:  # an order that cannot be used; it is answered all the same
        sys.stderr.write(f"{order['id']}: {type(error).__name__}: {error}\n")
        outcome = Outcome("pending" if call and call.undecided else "failed")
    with output:
        print(json.dumps({"id": order["id"], **outcome._asdict()}), flush=True)


def main():
    faults = [path.stem.replace("_", "-") for path in (Path(__file__).parent / "faults").glob("*.py")]
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", nargs="?", choices=sorted(faults))
    parser.add_argument("state_file", nargs="?")
    arguments = parser.parse_args()
    call_class = Call
    if arguments.fault:
        sys.modules["client"] = sys.modules["__main__"]  # faults import this module
        call_class = importlib.import_module("faults." + arguments.fault.replace("-", "_")).Call
    call_class.state_file = arguments.state_file
    if call_class.needs_state_file and not arguments.state_file:
        parser.error("this fault needs a state file")
    output = threading.Lock()
    with ThreadPoolExecutor(16) as pool:
        for line in sys.stdin.buffer:
            pool.submit(answer_order, call_class, line.decode(), output)


if __name__ == "__main__":
    main()
