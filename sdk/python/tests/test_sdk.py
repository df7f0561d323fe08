"""What the stories do not reach. A server on loopback gives the answers."""

import ast
import copy
import inspect
import json
import logging
import os
import pickle
import re
import socket
import ssl
import threading
import time
import unittest
from decimal import Decimal, localcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import coax
from coax import errors
from coax.exchange import Policy, _read_envelope
from coax.results import read_amount

KEY, SECRET = "cxk_" + "0" * 32, "cxs_" + "5ec7e7" * 10
BEHAVIOUR = (Path(__file__).parents[2] / "BEHAVIOUR.md").read_text()
OPERATION = {
    "transaction_id": "CX1",
    "idempotency_key": "order-4711",
    "status": "success",
    "amount": 199,
    "customer": {"subscriber_id": "100001", "name": "Asha 1.50", "password": "hunter22"},
    "wallet": {"before": 10000.00, "later": {"password": "hunter22"}},
}


def envelope(data, code="OK", **more):
    return {"success": code == "OK", "request_id": "req_1", "code": code, "message": "So.", "data": data, **more}


class Server(ThreadingHTTPServer):
    """Gives its answers in order, the last one again and again: (status, JSON), or a function
    that is given the handler."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.requests = []
        self.connections = set()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, *_):
        pass  # clients close connections, as they are told to

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.path, body, self.headers))
        self.server.connections.add(self.client_address)
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            answer(self)
        else:
            self.give(answer[0], json.dumps(answer[1]).encode())

    do_POST = do_GET

    def give(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Calls(unittest.TestCase):
    def serve(self, *answers, **options):
        server = self.enter(Server(*answers))
        options = {"pause": 0.001, "max_pause": 0.002, **options}
        client = coax.Client(f"http://127.0.0.1:{server.server_port}/proxied/api/v1/", KEY, SECRET, **options)
        return server, self.enter(client)

    def enter(self, context):
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def test_body_is_sent_as_given(self):
        for body, want in [
            ('{ "plan_id":"é" }', '{ "plan_id":"é" }'.encode()),
            (b'{"a":1}', b'{"a":1}'),
            ({"name": "é & <b>"}, '{"name":"é & <b>"}'.encode()),
        ]:
            server, client = self.serve((200, envelope(OPERATION)))
            client.renew(body, "order-4711")
            path, sent, headers = server.requests[0]
            self.assertEqual((path, sent), ("/proxied/api/v1/renew", want))
            signed = client.sign("POST", "/api/v1/renew", "", want, headers["X-Timestamp"], headers["X-Nonce"])
            self.assertEqual(headers["X-Signature"], signed)
            self.assertEqual(headers["User-Agent"], f"coax-python/{coax.__version__}")

    def test_text_that_is_not_utf8_is_not_sent(self):
        server, client = self.serve((200, envelope(OPERATION)))
        for body in ({"full_name": "\udcff", "mobile": "1"}, "\udcff", b"\xff", bytearray(b"\xff")):
            with self.assertRaises(coax.InvalidRequestError) as raised:
                client.activate(body, "order-4711")
            self.assertEqual(raised.exception.code, coax.Code.VALIDATION_ERROR)
            self.assertEqual(list(raised.exception.fields), ["full_name"] if isinstance(body, dict) else [])
        with self.assertRaises(coax.InvalidRequestError):
            client.subscription(mobile="\udcff")
        with self.assertRaises(TypeError):
            client.renew(["no object"], "order-4711")
        with self.assertRaises(coax.InvalidRequestError):
            client.renew({}, "order-4711\n")
        self.assertEqual(server.requests, [])

    def test_connections_are_kept_and_stale_ones_replaced(self):
        server, client = self.serve((200, envelope({"currency": "INR"})))
        for _ in range(3):
            client.balance()
        self.assertEqual(len(server.connections), 1)

        def answer_and_close(handler):
            handler.give(200, json.dumps(envelope({"currency": "INR"})).encode())
            handler.close_connection = True

        server.answers = [answer_and_close, (200, envelope({"currency": "INR"}))]
        client.balance()
        time.sleep(0.05)
        client.balance()
        self.assertEqual((len(server.connections), len(server.requests)), (2, 5))

    def test_fork_does_not_share_connections(self):
        server, client = self.serve((200, envelope({"currency": "INR"})))
        client.balance()
        with patch("os.getpid", return_value=os.getpid() + 1):
            client.balance()
        self.assertEqual(len(server.connections), 2)

    def test_threads_share_a_client(self):
        server, client = self.serve((200, envelope(OPERATION)))
        found = []
        call = lambda: found.append(client.renew({}, "order-4711").transaction_id)  # noqa: E731
        threads = [threading.Thread(target=call) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, ["CX1"] * 24)
        self.assertEqual(len({headers["X-Nonce"] for _, _, headers in server.requests}), 24)

    def test_timeout_is_for_the_whole_attempt(self):
        def drip(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            for _ in range(400):  # 20 s in all
                handler.wfile.write(b" ")
                time.sleep(0.05)

        _, client = self.serve(drip, timeout=0.2, attempts=1)
        began = time.monotonic()
        with self.assertRaises(coax.NoAnswerError) as raised:
            client.renew({}, "order-4711")
        self.assertLess(time.monotonic() - began, 10)
        self.assertTrue(raised.exception.undecided)

    def test_connect_timeout_includes_tls(self):
        silent = self.enter(socket.create_server(("127.0.0.1", 0)))
        client = coax.Client(
            f"https://127.0.0.1:{silent.getsockname()[1]}/api/v1", KEY, SECRET, connect_timeout=0.1, attempts=1
        )
        with self.assertRaises(coax.NoAnswerError) as raised:
            client.renew({}, "order-4711")
        self.assertFalse(raised.exception.undecided)

    def test_refused_connection_is_retried_and_decided(self):
        seen = []
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        client = coax.Client(
            f"http://localhost:{port}/api/v1", KEY, SECRET, pause=0, attempts=3, on_attempt=seen.append
        )
        with self.assertRaises(coax.NoAnswerError) as raised:
            client.renew({}, "order-4711")
        self.assertFalse(raised.exception.undecided)
        self.assertEqual((raised.exception.attempts, len(seen)), (3, 3))

    def test_untrusted_certificate_is_not_retried(self):
        client = coax.Client("https://127.0.0.1/api/v1", KEY, SECRET)
        broken = ssl.SSLCertVerificationError("self-signed certificate")
        with patch("coax.transport.socket.getaddrinfo", side_effect=broken):
            with self.assertRaises(coax.NoAnswerError) as raised:
                client.renew({}, "order-4711")
        self.assertEqual((raised.exception.attempts, raised.exception.undecided), (1, False))

    @patch("coax.transport.MAX_ANSWER", 1 << 20)
    def test_odd_answers_are_not_the_services(self):
        deep = b'{"code":' * 100_000
        large = b" " * (1 << 20) + b'{"code":"OK"}'
        for body in (b"\xff", deep, b'{"code":"OK","data":NaN}', b'{"code":""}', large):
            _, client = self.serve(lambda handler: handler.give(200, body), attempts=2)
            with self.assertRaises(coax.NoAnswerError) as raised:
                client.renew({}, "order-4711")
            self.assertEqual((raised.exception.status, raised.exception.undecided), (200, True))
            client.close()

    def test_incomplete_results_are_not_results(self):
        nested = {}
        for _ in range(500):
            nested = {"a": nested}
        wrong = [{"amount": "199"}, {"customer": []}, {"status": 1}, {"nested": nested}]
        for data in (None, [], {}, *({**OPERATION, **field} for field in wrong)):
            _, client = self.serve((200, envelope(data)), attempts=1)
            with self.assertRaises(coax.NoAnswerError) as raised:
                client.renew({}, "order-4711")
            self.assertTrue(raised.exception.undecided)
            self.assertEqual(raised.exception.request_id, "req_1")
        _, client = self.serve((200, envelope({})), attempts=1)
        for look_up in (client.balance, client.plans, client.subscription, lambda: client.transaction("CX1")):
            with self.assertRaises(coax.NoAnswerError):
                look_up()

    def test_error_in_the_hook_does_not_end_the_call(self):
        _, client = self.serve((200, envelope(OPERATION)), on_attempt=lambda attempt: 1 / 0)
        with self.assertLogs("coax", logging.ERROR):
            client.renew({}, "order-4711")

    def test_pauses_are_random_between_half_and_all_of_their_length(self):
        policy = Policy(10, 60, 180, 6, 0.5, 3, 120)
        for share, want in [(0, [0.25, 0.5, 1, 1.5, 1.5]), (0.5, [0.375, 0.75, 1.5, 2.25, 2.25])]:
            with patch("coax.exchange._random.uniform", lambda low, high: low + share * (high - low)):
                self.assertEqual([policy.pause_after(n) for n in (1, 2, 3, 4, 100)], want)
        self.assertGreater(len({policy.pause_after(1) for _ in range(20)}), 1)
        limited = coax.RateLimitError("Wait.", status=429, code=coax.Code.RATE_LIMITED, retry_after=60)
        exchange = coax.Client("https://coax.example/api/v1", KEY, SECRET)._exchange
        with patch("coax.exchange._random.uniform", lambda low, high: low + 0.5 * (high - low)):
            self.assertEqual(exchange._pause_after(limited, 1), 63)

    def test_poll_obeys_retry_after(self):
        def limited(handler):
            handler.send_response(429)
            handler.send_header("Retry-After", "3600")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        server, client = self.serve(limited)
        with self.assertRaises(coax.NoAnswerError) as raised:
            client.await_settled("order-4711", timeout=5)
        self.assertEqual((len(server.requests), raised.exception.undecided), (1, True))

    def test_unknown_code_is_not_polled(self):
        server, client = self.serve((202, envelope({}, "NEW_CODE")))
        with self.assertRaises(coax.PendingError) as raised:
            client.renew({}, "order-4711")
        self.assertEqual((len(server.requests), raised.exception.undecided), (1, True))

    def test_await_of_an_unknown_key_is_undecided(self):
        _, client = self.serve((404, envelope({}, coax.Code.TRANSACTION_NOT_FOUND)))
        with self.assertRaises(coax.NotFoundError) as raised:
            client.await_settled("order-4711")
        self.assertTrue(raised.exception.undecided)

    def test_details_of_errors(self):
        data = {"shortfall": 0.5, "wallet_balance": 0, "required_amount": 0.5}
        data.update({"server_time": True, "fields": {"a": 1}, "new": 1})
        _, client = self.serve((402, envelope(data, coax.Code.INSUFFICIENT_BALANCE)))
        with self.assertRaises(coax.InsufficientBalanceError) as raised:
            client.renew({}, "order-4711")
        error = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual(str(error.shortfall), "0.50")
        self.assertEqual((error.server_time, error.fields, error.data.new, error.status), (None, {}, 1, 402))
        self.assertEqual(str(error), "POST renew: INSUFFICIENT_BALANCE: So [req_1]")


class Files(unittest.TestCase):
    def test_syntax_is_that_of_python_3_9(self):
        files = list(Path(__file__).parents[1].rglob("*.py"))
        self.assertGreater(len(files), 10)
        for file in files:
            ast.parse(file.read_text(), str(file), feature_version=(3, 9))


class Results(unittest.TestCase):
    def setUp(self):
        text = json.dumps(envelope(OPERATION)).replace("10000.0", "90071992547409.93")
        self.operation = coax.Operation.read(_read_envelope(text.encode())["data"])

    def test_amounts_are_exact(self):
        self.assertEqual(str(self.operation.amount), "199.00")
        self.assertEqual(str(self.operation.wallet.before), "90071992547409.93")
        self.assertEqual(self.operation.customer.name, "Asha 1.50")
        with localcontext() as context:
            context.prec = 3
            self.assertEqual(str(read_amount(Decimal("90071992547409.9"))), "90071992547409.90")
        for wrong in ("1.00", 1.5, True, None, Decimal("0.001"), Decimal("1e99"), Decimal("Infinity"), [1]):
            with self.assertRaises(ValueError):
                read_amount(wrong)

    def test_fields_are_attributes_and_keys(self):
        self.assertEqual(self.operation.status, self.operation["status"])
        self.assertIsNone(self.operation.reason)
        self.assertNotIn("reason", self.operation)
        with self.assertRaises(AttributeError):
            self.operation.unknown
        with self.assertRaises(AttributeError):
            self.operation.status = "failed"

    def test_password_is_read_by_name_only(self):
        customer = self.operation.customer
        self.assertEqual({customer.password, customer["password"], customer.get("password")}, {"hunter22"})
        self.assertEqual(copy.deepcopy(self.operation).customer.password, "hunter22")
        self.assertIsNone(pickle.loads(pickle.dumps(self.operation)).customer.password)
        error = coax.PendingError("Wait.", operation=self.operation)
        for value in (self.operation, customer, dict(customer), list(customer.values()), {**customer}, vars(error)):
            shown = f"{value} {value!r} {json.dumps(value, default=str)} {pickle.dumps(value)!r}"
            self.assertNotIn("hunter22", shown)


class Clients(unittest.TestCase):
    def test_invalid_arguments(self):
        good = {"base_url": "https://coax.example/api/v1", "api_key": KEY, "api_secret": SECRET}
        coax.Client(**good)
        coax.Client("http://[::1]:8080/api/v1", KEY, SECRET)
        with TemporaryDirectory() as folder:
            empty = Path(folder, "ca.pem")
            empty.write_text("")
            for name, value in [
                ("base_url", ""),
                ("base_url", "https://coax.example"),
                ("base_url", "https://coax.example/api/v1?a=b"),
                ("base_url", "https://user@coax.example/api/v1"),
                ("base_url", "https://coax.example:port/api/v1"),
                ("base_url", "https://coax.example/api/v1\n"),
                ("base_url", "http://coax.example/api/v1"),
                ("base_url", "https:///api/v1"),
                ("api_key", ""),
                ("api_key", KEY + "\n"),
                ("api_secret", None),
                ("api_secret", SECRET + " "),
                ("ca_cert", Path(folder, "none.pem")),
                ("ca_cert", empty),
                ("timeout", 0),
                ("timeout", float("nan")),
                ("total_timeout", -1),
                ("attempts", 0),
                ("pause", float("inf")),
            ]:
                with self.subTest(name, value=value), self.assertRaises(ValueError) as raised:
                    coax.Client(**{**good, name: value})
                self.assertNotIn(SECRET, str(raised.exception))
        for name, value in [("timeout", "60"), ("attempts", 1.5), ("pause", True)]:
            with self.subTest(name, value=value), self.assertRaises(TypeError):
                coax.Client(**{**good, name: value})

    def test_secret_is_not_shown(self):
        client = coax.Client("https://coax.example/api/v1", KEY, SECRET)
        parts = [vars(part) for part in vars(client).values() if hasattr(part, "__dict__")]
        self.assertNotIn(SECRET, f"{client} {client!r} {vars(client)} {parts}")
        for dump in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaises(TypeError):
                dump(client)

    def test_every_code_has_its_class_of_behaviour_md(self):
        seen = {coax.Code.OK}
        for name, codes in re.findall(r"^\| `([A-Za-z]+Error)` \| (.+) \|$", BEHAVIOUR, re.MULTILINE):
            for code in re.findall("`([A-Z_]+)`", codes):
                self.assertIs(errors.class_of(400, code), getattr(coax, name), code)
                seen.add(code)
        self.assertEqual(seen, {value for name, value in vars(coax.Code).items() if name.isupper()})

    def test_defaults_are_those_of_behaviour_md(self):
        words = {"yes": True, "none": None, "the system's": time.time}
        want = {}
        for name, text in re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \| [^|]+ \|$", BEHAVIOUR, re.MULTILINE):
            want[name] = words[text] if text in words else float(text.replace(" s", ""))
        options = inspect.signature(coax.Client).parameters.values()
        self.assertEqual({option.name: option.default for option in options if option.kind == option.KEYWORD_ONLY}, want)


if __name__ == "__main__":
    unittest.main()
