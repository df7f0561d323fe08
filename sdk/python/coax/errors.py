"""The errors of calls. The class follows from the code; ``undecided`` decides what to do."""

from __future__ import annotations

import re
from decimal import Decimal
from http.client import HTTPMessage
from typing import Any, Dict, Mapping, Optional, Type

from .codes import Code
from .results import Operation, Record, read_amount


class Error(Exception):
    """A call that did not succeed. ``code`` has the service's code and ``message`` its text,
    whose wording may change."""

    #: The method and the endpoint, such as ``POST renew``.
    call: str = ""
    #: The HTTP status; 0 if no answer came.
    status: int = 0
    #: One of ``Code``, or a code of a later version; empty if no answer of the service came.
    code: str = ""
    #: The service's message, or why no answer came.
    message: str = ""
    #: Names the request to support.
    request_id: str = ""
    #: How often the request was sent; 0 if the SDK refused it.
    attempts: int = 0
    #: The seconds that the service asks to wait; 0 if it does not.
    retry_after: float = 0
    #: An attempt of this call may have carried out the operation, or may still do so. Call
    #: again later with the same key; another key would be another operation.
    undecided: bool = False

    #: A message for each invalid field (VALIDATION_ERROR).
    fields: Dict[str, str]
    #: What is missing in the wallet, what is in it, and the price (INSUFFICIENT_BALANCE).
    shortfall: Optional[Decimal] = None
    wallet_balance: Optional[Decimal] = None
    required_amount: Optional[Decimal] = None
    #: The earlier operation (DUPLICATE_REQUEST).
    previous_transaction_id: str = ""
    #: The customer's other operation that is not settled (OPERATION_IN_PROGRESS).
    open_transaction_id: str = ""
    #: The service's clock in Unix seconds (TIMESTAMP_EXPIRED).
    server_time: Optional[int] = None
    #: The address that the service saw (IP_NOT_WHITELISTED).
    ip: str = ""
    #: The operation's state, if the answer has it.
    operation: Optional[Operation] = None
    #: All data of the answer, unless it is an operation.
    data: Record

    # The connection was made; its certificate verified.
    _connected: bool = True
    _trusted: bool = True

    def __init__(self, message: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = {}
        self.data = Record()
        self.__dict__.update(details)

    def __str__(self) -> str:
        text = self.call or type(self).__name__
        if self.code:
            text += f": {self.code}: {self.message.rstrip('. ')}"
        elif self.status:
            text += f": status {self.status} and an answer that is not the service's"
        else:
            text += ": no answer"
        for name in sorted(self.fields):
            text += f"; {name}: {self.fields[name].rstrip('. ')}"
        if not self.code and self.message:
            text += f": {self.message}"
        if self.attempts > 1:
            text += f" ({self.attempts} attempts)"
        if self.request_id:
            text += f" [{self.request_id}]"
        if self.undecided:
            text += "; it may have been carried out: call again with the same idempotency key"
        return text


class InvalidRequestError(Error):
    """The request is malformed; the code says how."""


class AuthenticationError(Error):
    """The key, its signature or the clock was refused."""


class AccessDeniedError(Error):
    """The operator, the key or the address is not allowed to do this."""


class RateLimitError(Error):
    """Too many requests; see ``retry_after``."""


class InsufficientBalanceError(Error):
    """The wallet holds too little; see ``shortfall``. After a top-up, call with the same key."""


class NotFoundError(Error):
    """There is no such subscriber or transaction."""


class ConflictError(Error):
    """The state of the subscriber does not allow this operation, or not now."""


class UnavailableError(Error):
    """The service cannot answer at present."""


class ProviderError(Error):
    """The operation was not carried out and not charged; see ``operation.reason``. The key is
    used up."""


class PendingError(Error):
    """The outcome is not known yet: call again later with the same key."""


class NoAnswerError(Error):
    """No answer of the service came."""


_CLASSES: Mapping[str, Type[Error]] = {
    Code.BAD_REQUEST: InvalidRequestError,
    Code.NOT_FOUND: InvalidRequestError,
    Code.METHOD_NOT_ALLOWED: InvalidRequestError,
    Code.PAYLOAD_TOO_LARGE: InvalidRequestError,
    Code.UNSUPPORTED_MEDIA_TYPE: InvalidRequestError,
    Code.INVALID_JSON: InvalidRequestError,
    Code.MISSING_IDEMPOTENCY_KEY: InvalidRequestError,
    Code.INVALID_IDEMPOTENCY_KEY: InvalidRequestError,
    Code.VALIDATION_ERROR: InvalidRequestError,
    Code.INVALID_PLAN: InvalidRequestError,
    Code.IDEMPOTENCY_KEY_REUSED: InvalidRequestError,
    Code.HTTPS_REQUIRED: AuthenticationError,
    Code.MISSING_AUTH_HEADERS: AuthenticationError,
    Code.INVALID_API_KEY: AuthenticationError,
    Code.CREDENTIAL_REVOKED: AuthenticationError,
    Code.CREDENTIAL_EXPIRED: AuthenticationError,
    Code.TIMESTAMP_EXPIRED: AuthenticationError,
    Code.INVALID_NONCE: AuthenticationError,
    Code.INVALID_SIGNATURE: AuthenticationError,
    Code.REPLAY_DETECTED: AuthenticationError,
    Code.LCO_NOT_FOUND: AccessDeniedError,
    Code.LCO_INACTIVE: AccessDeniedError,
    Code.API_ACCESS_BLOCKED: AccessDeniedError,
    Code.API_DISABLED: AccessDeniedError,
    Code.IP_NOT_WHITELISTED: AccessDeniedError,
    Code.PERMISSION_DENIED: AccessDeniedError,
    Code.RATE_LIMITED: RateLimitError,
    Code.TOO_MANY_FAILED_ATTEMPTS: RateLimitError,
    Code.INSUFFICIENT_BALANCE: InsufficientBalanceError,
    Code.SUBSCRIBER_NOT_FOUND: NotFoundError,
    Code.TRANSACTION_NOT_FOUND: NotFoundError,
    Code.SUBSCRIBER_EXISTS: ConflictError,
    Code.PLAN_ALREADY_ACTIVE: ConflictError,
    Code.DUPLICATE_REQUEST: ConflictError,
    Code.OPERATION_IN_PROGRESS: ConflictError,
    Code.INTERNAL_ERROR: UnavailableError,
    Code.SERVICE_UNAVAILABLE: UnavailableError,
    Code.PLANS_UNAVAILABLE: UnavailableError,
    Code.PROVIDER_ERROR: ProviderError,
    Code.PENDING_REVIEW: PendingError,
    Code.REQUEST_IN_PROGRESS: PendingError,
}

_CLASSES_BY_STATUS: Mapping[int, Type[Error]] = {
    401: AuthenticationError,
    402: InsufficientBalanceError,
    403: AccessDeniedError,
    404: NotFoundError,
    409: ConflictError,
    429: RateLimitError,
}


def class_of(status: int, code: str) -> Type[Error]:
    """Return the class of an answer of the service; by its status if the code is unknown."""
    if code in _CLASSES:
        return _CLASSES[code]
    if status in _CLASSES_BY_STATUS:
        return _CLASSES_BY_STATUS[status]
    if status >= 500:
        return UnavailableError
    if status >= 400:
        return InvalidRequestError
    return PendingError  # neither a success nor a refusal: the outcome is unknown


def read_refusal(status: int, headers: HTTPMessage, answer: Mapping[str, Any]) -> Error:
    """Return the error of an answer of the service that is not a success."""
    code = answer["code"]
    error = class_of(status, code)(
        read_text(answer, "message"),
        status=status,
        code=code,
        request_id=read_text(answer, "request_id"),
        retry_after=read_retry_after(headers),
    )
    data = answer.get("data")
    if not isinstance(data, dict):
        return error
    # A later version may send other types under these names; then the attribute stays empty,
    # and error.data has the value.
    error.data = Record.read(data)
    fields = data.get("fields")
    if isinstance(fields, dict) and all(isinstance(text, str) for text in fields.values()):
        error.fields = fields
    error.previous_transaction_id = read_text(data, "previous_transaction_id")
    error.ip = read_text(data, "ip")
    server_time = data.get("server_time")
    if type(server_time) is int and 0 < server_time < 1 << 53:
        error.server_time = server_time
    for name in ("shortfall", "wallet_balance", "required_amount"):
        try:
            setattr(error, name, read_amount(data.get(name)))
        except ValueError:
            pass
    if code == Code.OPERATION_IN_PROGRESS:
        error.open_transaction_id = read_text(data, "transaction_id")
    elif read_text(data, "transaction_id"):
        try:
            error.operation = read_operation(data, headers)
            error.data = Record()
        except ValueError:
            pass
    return error


def read_operation(data: object, headers: HTTPMessage) -> Operation:
    operation = Operation.read(data)
    operation["replayed"] = headers.get("Idempotent-Replayed") == "true"
    return operation


def read_retry_after(headers: HTTPMessage) -> float:
    """Read the seconds that the service sends. A date, which proxies may send, is ignored."""
    text = headers.get("Retry-After", "")
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 1 << 31:
        return 0
    return float(text)


def read_text(of: Mapping[str, Any], name: str) -> str:
    value = of.get(name)
    return value if isinstance(value, str) else ""
