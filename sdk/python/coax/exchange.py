"""One call: its attempts, what they mean, and the pauses between them."""

from __future__ import annotations

import json
import logging
import random
import secrets
import time
from dataclasses import dataclass, field
from decimal import Decimal
from http.client import HTTPException, HTTPMessage
from typing import Any, Callable, Dict, Generic, NoReturn, Optional, Tuple, TypeVar, cast

from .codes import Code, Status
from .errors import Error, NoAnswerError, read_refusal, read_retry_after, read_text
from .results import Operation
from .signing import Signer
from .transport import ConnectError, Transport

VERSION = "0.2.0"
API_PATH = "/api/v1"

# The least pause while another operation of the same customer is in progress, in seconds.
_BUSY_PAUSE = 2.0

# Not the seeded generator, whose state forked processes share.
_random = random.SystemRandom()
_log = logging.getLogger("coax")

T = TypeVar("T")


@dataclass(frozen=True)
class Policy:
    """The options of a client that are numbers; in seconds, but for attempts."""

    connect_timeout: float
    timeout: float
    total_timeout: float
    attempts: int
    pause: float
    max_pause: float
    max_retry_after: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{name} has to be a number, not {value!r}")
            if not 0 <= value < float("inf") or value == 0 and name.endswith(("timeout", "attempts")):
                raise ValueError(f"{name} cannot be {value}")
        if not isinstance(self.attempts, int):
            raise TypeError(f"attempts has to be a whole number, not {self.attempts!r}")

    def pause_after(self, attempt: int) -> float:
        """Return the pause after the n-th attempt: growing, with jitter, so that many clients
        do not retry at the same time."""
        longest = min(self.pause * 2 ** min(attempt - 1, 60), self.max_pause)
        return _random.uniform(longest / 2, longest)


@dataclass(frozen=True)
class Attempt:
    """What ``on_attempt`` is given. It holds neither query nor body, which have customers' data."""

    #: The method and the endpoint, such as ``POST renew``.
    call: str
    #: Counts the attempts of a call from 1.
    number: int
    #: 0 without an answer.
    status: int
    #: The service's code; empty if the answer is not the service's.
    code: str
    request_id: str
    #: In seconds.
    duration: float
    #: Seconds before the next attempt; None after the last.
    pause: Optional[float]
    #: Why there was no valid answer.
    error: Optional[str]


@dataclass(frozen=True)
class Call(Generic[T]):
    method: str
    endpoint: str
    # Reads the data of a success, given the headers, or raises ValueError.
    read: Callable[[object, HTTPMessage], T] = field(repr=False)
    # The raw query; it may have a customer's number.
    query: str = field(default="", repr=False)
    # The body may have a customer's password.
    body: bytes = field(default=b"", repr=False)
    # The idempotency key of an operation; empty for look-ups.
    key: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.endpoint}"


@dataclass(frozen=True)
class Reply(Generic[T]):
    """A success that was read."""

    call: str
    attempts: int
    request_id: str
    result: T


class Exchange:
    """Signs and sends calls. It is safe for threads."""

    def __init__(
        self,
        transport: Transport,
        host: str,
        prefix: str,
        api_key: str,
        sign: Signer,
        policy: Policy,
        on_attempt: Optional[Callable[[Attempt], object]],
        clock: Callable[[], float],
    ) -> None:
        self._transport = transport
        self._host = host
        self._prefix = prefix  # a proxy's path before /api/v1, which is not signed
        self._api_key = api_key
        self._sign = sign
        self._policy = policy
        self._on_attempt = on_attempt
        self._clock = clock
        # How far the service's clock is ahead of ours, by its last report.
        self._ahead = 0.0

    def perform(self, call: Call[T], deadline: float) -> Reply[T]:
        """Send a call until it succeeds or cannot be retried. Each attempt has a new signature
        and exactly the same body."""
        corrected = undecided = False
        number = 0
        while True:
            number += 1
            began = time.monotonic()
            if number == 1 and began >= deadline:
                raise NoAnswerError("The time was over before the first attempt. Nothing was sent.", call=str(call))
            outcome = self._attempt(call, min(deadline, began + self._policy.timeout))
            request_id, result, failure = outcome
            duration = time.monotonic() - began
            if failure is None:
                self._report(Attempt(str(call), number, 200, Code.OK, request_id, duration, None, None))
                return Reply(str(call), number, request_id, cast(T, result))
            undecided = undecided or _leaves_undecided(failure, call)
            failure.call = str(call)
            failure.attempts = number
            failure.undecided = undecided and failure.code not in _FINAL

            pause: Optional[float] = None
            if failure.code == Code.TIMESTAMP_EXPIRED and failure.server_time is not None and not corrected:
                # Once only: the service counts a wrong clock as a failed authentication.
                self._ahead = failure.server_time - self._clock()
                corrected = True
                pause = 0.0
            elif is_retryable(failure) and failure.retry_after <= self._policy.max_retry_after:
                pause = self._pause_after(failure, number)
            if pause is not None and (number >= self._policy.attempts or time.monotonic() + pause >= deadline):
                pause = None
            error = None if failure.code else failure.message
            self._report(Attempt(str(call), number, failure.status, failure.code, request_id, duration, pause, error))
            if pause is None:
                raise failure
            time.sleep(pause)

    def _attempt(self, call: Call[T], deadline: float) -> Tuple[str, Optional[T], Optional[Error]]:
        """Sign and send a call once. Return the request's id and the result or the error."""
        try:
            answer = self._transport.send(call.method, self._request(call), deadline)
        except ConnectError as failed:
            return "", None, _no_answer(failed.cause, connected=False, trusted=failed.trusted)
        except (OSError, HTTPException, ValueError) as error:
            return "", None, _no_answer(error)
        envelope = _read_envelope(answer.body)
        if envelope is None:
            return "", None, NoAnswerError(
                "The answer is not the service's.",
                status=answer.status,
                retry_after=read_retry_after(answer.headers),
            )
        request_id = read_text(envelope, "request_id")
        try:
            if answer.status == 200 and envelope.get("success") is True:
                return request_id, call.read(envelope.get("data"), answer.headers), None
            failure = read_refusal(answer.status, answer.headers, envelope)
        except (ValueError, RecursionError) as error:
            return request_id, None, _unreadable(f"The answer cannot be read: {error}.", answer.status, request_id)
        if failure.operation is not None and not is_operation_of(call.key, failure.operation):
            return request_id, None, _unreadable("The answer is about another operation.", answer.status, request_id)
        if call.key and failure.operation is None and failure.code in _STATUS_OF:
            # These codes always come with an operation, if only with its key and status.
            known = {"idempotency_key": call.key, "status": _STATUS_OF[failure.code], "replayed": False}
            failure.operation = Operation(known)
        return request_id, None, failure

    def _request(self, call: Call[Any]) -> bytes:
        """Return a signed request, with a new timestamp and nonce. It can be sent only once."""
        path = f"{API_PATH}/{call.endpoint}"
        timestamp = str(int(self._clock() + self._ahead))
        nonce = secrets.token_hex(16)
        target = self._prefix + path + (f"?{call.query}" if call.query else "")
        lines = [
            f"{call.method} {target} HTTP/1.1",
            f"Host: {self._host}",
            f"User-Agent: coax-python/{VERSION}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            f"X-API-Key: {self._api_key}",
            f"X-Timestamp: {timestamp}",
            f"X-Nonce: {nonce}",
            f"X-Signature: {self._sign(call.method, path, call.query, call.body, timestamp, nonce)}",
        ]
        if call.key:
            lines.append(f"Idempotency-Key: {call.key}")
        if call.method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(call.body)}"]
        return "\r\n".join(lines + ["", ""]).encode("ascii") + call.body

    def _pause_after(self, failure: Error, attempt: int) -> float:
        pause = self._policy.pause_after(attempt)
        if failure.status == 429 and failure.retry_after > 0:
            # Other clients of the operator were given the same time.
            return failure.retry_after + _random.uniform(0, failure.retry_after / 10)
        if failure.code == Code.OPERATION_IN_PROGRESS:
            return min(max(pause, _BUSY_PAUSE), self._policy.max_pause)
        return pause

    def _report(self, attempt: Attempt) -> None:
        if self._on_attempt is None:
            return
        try:
            self._on_attempt(attempt)
        except Exception:
            # The call goes on: its outcome must not be lost to an error in a log.
            _log.exception("on_attempt failed")


# The codes that decide a key, even if earlier attempts were undecided.
_FINAL = (Code.PROVIDER_ERROR, Code.IDEMPOTENCY_KEY_REUSED)

_STATUS_OF = {Code.PENDING_REVIEW: Status.NEEDS_REVIEW, Code.PROVIDER_ERROR: Status.FAILED}


def is_operation_of(key: str, operation: Operation) -> bool:
    """Tell whether an operation has this key; look-ups have none."""
    return not key or operation.idempotency_key in (None, "", key)


def is_retryable(failure: Error) -> bool:
    """Tell whether a call may be sent again with the same key."""
    if failure.status == 0:
        return failure._trusted  # an invalid certificate stays invalid
    if not failure.code:
        # A proxy answered: it is unknown what the service did.
        return failure.status == 429 or failure.status >= 500 or failure.status < 300
    if failure.code in (Code.REPLAY_DETECTED, Code.OPERATION_IN_PROGRESS):
        # Each attempt has a new nonce. A replay means that the network delivered a request
        # twice, and that this is the answer to the copy.
        return True
    return failure.status in (429, 500, 503)


def _leaves_undecided(failure: Error, call: Call[Any]) -> bool:
    """Tell whether this attempt may have started the operation, or may still start it, with an
    unknown result."""
    if not call.key:
        return False
    if failure.status == 0:
        return failure._connected
    if not failure.code:
        return True
    if failure.code in (Code.PENDING_REVIEW, Code.REQUEST_IN_PROGRESS, Code.REPLAY_DETECTED):
        return True
    if failure.code in (Code.PLANS_UNAVAILABLE, Code.PROVIDER_ERROR):
        return False
    return failure.status >= 500 or failure.status < 300


def _no_answer(cause: Exception, connected: bool = True, trusted: bool = True) -> NoAnswerError:
    # The frames of the cause have the signature, and error reporters print variables.
    cause.__traceback__ = cause.__cause__ = cause.__context__ = None
    error = NoAnswerError(f"{type(cause).__name__}: {cause}", _connected=connected, _trusted=trusted)
    error.__cause__ = cause
    return error


def _unreadable(message: str, status: int, request_id: str) -> NoAnswerError:
    return NoAnswerError(message, status=status, request_id=request_id)


def _read_envelope(body: bytes) -> Optional[Dict[str, Any]]:
    """Read an answer of the service; None if it is something else."""
    try:
        answer = json.loads(body.decode(), parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    if isinstance(answer, dict) and isinstance(answer.get("code"), str) and answer["code"]:
        return answer
    return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
