"""The client of the API."""

from __future__ import annotations

import os
import time
from http.client import HTTPMessage
from typing import Callable, NoReturn, Optional, Type, TypeVar, Union

from .arguments import Body, check_credential, check_key, encode_query, read_base, serialise, tls_context
from .codes import Code, Status
from .errors import Error, NoAnswerError, PendingError, class_of, read_operation
from .exchange import Attempt, Call, Exchange, Policy, Reply, is_operation_of, is_retryable
from .results import Balance, Catalogue, Operation, Record, Secret, Subscription
from .signing import signer
from .transport import Transport

R = TypeVar("R", bound=Record)


class Client:
    """Calls a service. One client serves a whole program: it is safe for threads and forks, and
    keeps connections open. ``close()`` closes the idle ones, and so does ``with``.

    :param base_url: the service's address, ``https://HOST/api/v1``.
    :param ca_cert: path of the service's own certificate authority; without it, the system's
        authorities are trusted.

    sdk/BEHAVIOUR.md explains the options, which are in seconds. An invalid argument is a
    ValueError or a TypeError."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        api_secret: str,
        ca_cert: Union[str, os.PathLike[str], None] = None,
        *,
        connect_timeout: float = 10,
        timeout: float = 60,
        total_timeout: float = 180,
        attempts: int = 6,
        pause: float = 0.5,
        max_pause: float = 30,
        max_retry_after: float = 120,
        wait_until_settled: bool = True,
        on_attempt: Optional[Callable[[Attempt], object]] = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_credential("API key", api_key)
        check_credential("API secret", api_secret)
        sign = signer(api_secret)
        del api_secret  # error reporters print the variables of frames
        scheme, netloc, host, port, prefix = read_base(base_url)
        policy = Policy(connect_timeout, timeout, total_timeout, attempts, pause, max_pause, max_retry_after)
        tls = tls_context(ca_cert) if scheme == "https" else None
        self._base_url = base_url
        self._api_key = api_key
        self._sign = sign
        self._policy = policy
        self._wait_until_settled = wait_until_settled
        self._transport = Transport(host, port, tls, connect_timeout)
        self._exchange = Exchange(self._transport, netloc, prefix, api_key, sign, policy, on_attempt, clock)

    def activate(self, body: Body, idempotency_key: str) -> Operation:
        """Create a subscriber and activate a plan, for its price. The key names this activation
        permanently: store it before the call.

        Returns if it was carried out, and raises an Error otherwise. If the provider's answer is
        missing, the call waits until the operation is settled. ``error.undecided`` means that
        the outcome is not known yet: keep the key and call again later."""
        return self._operate("activate", body, idempotency_key)

    def renew(self, body: Body, idempotency_key: str) -> Operation:
        """Renew a subscriber, for the plan's price. Otherwise as ``activate``."""
        return self._operate("renew", body, idempotency_key)

    def advance_renew(self, body: Body, idempotency_key: str) -> Operation:
        """Book a subscriber's next cycle before the present one ends, for the plan's price.
        Otherwise as ``activate``."""
        return self._operate("advance-renew", body, idempotency_key)

    def balance(self) -> Balance:
        """Read the operator's wallet."""
        return self._look_up("balance", "", Balance, lambda balance: balance.currency)

    def plans(self) -> Catalogue:
        """Read the catalogue. An operation costs the price at the time of the operation."""
        return self._look_up("plans", "", Catalogue, lambda catalogue: catalogue.plans is not None)

    def subscription(self, subscriber_id: Optional[str] = None, mobile: Optional[str] = None) -> Subscription:
        """Read one of the operator's subscribers, by id or else by mobile number."""
        query = encode_query("GET subscription", subscriber_id=subscriber_id, mobile=mobile)
        return self._look_up(
            "subscription", query, Subscription, lambda found: found.customer and found.customer.subscriber_id
        )

    def transaction(self, transaction_id: Optional[str] = None, idempotency_key: Optional[str] = None) -> Operation:
        """Read an operation, by the service's id or else by the caller's key. An operation that
        failed is returned as well."""
        query = encode_query("GET transaction", transaction_id=transaction_id, idempotency_key=idempotency_key)
        read = _operation_with("transaction_id", transaction_id)
        if not transaction_id:
            read = _operation_with("idempotency_key", idempotency_key)
        deadline = time.monotonic() + self._policy.total_timeout
        return self._exchange.perform(Call("GET", "transaction", read, query), deadline).result

    def await_settled(self, idempotency_key: str, timeout: float = 600) -> Operation:
        """Poll an operation until it is settled, for an order that an earlier run left open.

        Returns it if it was carried out, and raises an Error otherwise. TRANSACTION_NOT_FOUND
        means that nothing was reserved under the key so far. That is undecided, too, because a
        request may still arrive: call the operation itself again, with the same key."""
        check_key("GET transaction", idempotency_key)
        reply = self._follow(idempotency_key, _is_settled, time.monotonic() + timeout)
        return _require_success(reply)

    def sign(
        self,
        method: str,
        path: str,
        query: Union[str, bytes] = "",
        body: Union[str, bytes] = b"",
        timestamp: Union[str, int] = "",
        nonce: str = "",
    ) -> str:
        """Return the signature of a request in hex. The path is from ``/api/v1/`` on; the query is
        the raw one, without ``?``."""
        return self._sign(method, path, query, body, timestamp, nonce)

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._base_url!r}, {self._api_key!r}, [secret])"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client is not copied or pickled: it holds a secret and connections")

    def _operate(self, endpoint: str, body: Body, key: str) -> Operation:
        """Send one operation, with retries where that is safe, and poll it while it is open."""
        check_key(f"POST {endpoint}", key)
        text = serialise(f"POST {endpoint}", body)
        deadline = time.monotonic() + self._policy.total_timeout

        def read(data: object, headers: HTTPMessage) -> Operation:
            operation = _read_operation(data, headers)
            if not is_operation_of(key, operation):
                raise ValueError("it is about another operation")
            return operation

        try:
            reply = self._exchange.perform(Call("POST", endpoint, read, "", text, key), deadline)
        except PendingError as error:
            if error.code != Code.REQUEST_IN_PROGRESS and not (
                error.code == Code.PENDING_REVIEW and self._wait_until_settled
            ):
                raise
            pending = error
        else:
            return _require_success(reply)
        # 202, or an earlier attempt arrived and its answer was lost.
        enough = _is_settled if self._wait_until_settled else _has_left_processing
        try:
            polled = self._follow(key, enough, deadline)
            _keep_password(pending.operation, polled.result)
            return _require_success(polled)
        except Error as error:
            if error.operation is not None:
                _keep_password(pending.operation, error.operation)
                raise
            # The operation exists, even if no look-up has found it.
            raise pending from error

    def _follow(self, key: str, enough: Callable[[str], bool], deadline: float) -> Reply[Operation]:
        """Poll an operation until its status is enough. The error of a wait that ended early has
        the last state, if there was one."""
        last: Optional[Reply[Operation]] = None
        poll = 0
        while True:
            poll += 1
            pause = self._policy.pause_after(poll)
            failure: Optional[Error] = None
            try:
                last = self._poll(key, deadline)
                if enough(last.result.status):
                    return last
            except Error as error:
                failure = error
                failure.operation = last.result if last else None
                failure.undecided = True
                if not is_retryable(failure):
                    raise
                pause = max(pause, failure.retry_after)
            if time.monotonic() + pause < deadline:
                time.sleep(pause)
            elif last is not None:
                raise _outcome(last) from failure
            else:
                message = "The operation was not found before the time was over."
                raise NoAnswerError(message, call="GET transaction", attempts=poll, undecided=True) from failure

    def _poll(self, key: str, deadline: float) -> Reply[Operation]:
        read = _operation_with("idempotency_key", key)
        query = encode_query("GET transaction", idempotency_key=key)
        deadline = min(deadline, time.monotonic() + self._policy.total_timeout)
        return self._exchange.perform(Call("GET", "transaction", read, query), deadline)

    def _look_up(self, endpoint: str, query: str, kind: Type[R], is_complete: Callable[[R], object]) -> R:
        def read(data: object, headers: HTTPMessage) -> R:
            found = kind.read(data)
            if not is_complete(found):
                raise ValueError("it is not what was asked for")
            return found

        deadline = time.monotonic() + self._policy.total_timeout
        return self._exchange.perform(Call("GET", endpoint, read, query), deadline).result


def _read_operation(data: object, headers: HTTPMessage) -> Operation:
    operation = read_operation(data, headers)
    for name in ("transaction_id", "status"):
        if not isinstance(operation.get(name), str) or not operation[name]:
            raise ValueError("it has no operation")
    return operation


def _operation_with(name: str, value: Optional[str]) -> Callable[[object, HTTPMessage], Operation]:
    def read(data: object, headers: HTTPMessage) -> Operation:
        operation = _read_operation(data, headers)
        if operation.get(name) != value:
            raise ValueError("it is about another operation")
        return operation

    return read


def _is_settled(status: str) -> bool:
    return status in (Status.SUCCESS, Status.FAILED)


def _has_left_processing(status: str) -> bool:
    return status != Status.PROCESSING


# What the service would answer to a repeated request, by the operation's status.
_ANSWERS = {
    Status.FAILED: (502, Code.PROVIDER_ERROR),
    Status.NEEDS_REVIEW: (202, Code.PENDING_REVIEW),
    Status.PROCESSING: (409, Code.REQUEST_IN_PROGRESS),
}


def _outcome(reply: Reply[Operation]) -> Error:
    """Return the error of an operation that was not carried out, or not yet. An unknown status,
    of a later version, is undecided."""
    operation = reply.result
    status, code = _ANSWERS.get(operation.status, (200, operation.result_code or Code.OK))
    return class_of(status, code)(
        operation.result_message or "",
        call=reply.call,
        attempts=reply.attempts,
        request_id=reply.request_id,
        status=status,
        code=code,
        operation=operation,
        undecided=operation.status != Status.FAILED,
    )


def _require_success(reply: Reply[Operation]) -> Operation:
    if reply.result.status != Status.SUCCESS:
        raise _outcome(reply)
    return reply.result


def _keep_password(first: Optional[Operation], later: Operation) -> None:
    """Copy a generated password, which only the first answer has."""
    if first is None or first.customer is None or not first.customer.password:
        return
    if later.customer is None:
        later["customer"] = first.customer
    elif not later.customer.password:
        later.customer["password"] = Secret(first.customer.password)
