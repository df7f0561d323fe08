"""The constants of the API. The service may add values within version 1; unknown ones are
passed on unchanged, as plain strings."""

from __future__ import annotations


class Code:
    """Result codes: ``error.code``, ``attempt.code`` and ``operation.result_code``."""

    # Not processed: transport and authentication.
    HTTPS_REQUIRED = "HTTPS_REQUIRED"
    BAD_REQUEST = "BAD_REQUEST"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    MISSING_AUTH_HEADERS = "MISSING_AUTH_HEADERS"
    INVALID_API_KEY = "INVALID_API_KEY"
    CREDENTIAL_REVOKED = "CREDENTIAL_REVOKED"
    CREDENTIAL_EXPIRED = "CREDENTIAL_EXPIRED"
    TIMESTAMP_EXPIRED = "TIMESTAMP_EXPIRED"
    INVALID_NONCE = "INVALID_NONCE"
    INVALID_SIGNATURE = "INVALID_SIGNATURE"
    REPLAY_DETECTED = "REPLAY_DETECTED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    TOO_MANY_FAILED_ATTEMPTS = "TOO_MANY_FAILED_ATTEMPTS"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"

    # Not processed: the operator's account or key is not allowed to.
    LCO_NOT_FOUND = "LCO_NOT_FOUND"
    LCO_INACTIVE = "LCO_INACTIVE"
    API_ACCESS_BLOCKED = "API_ACCESS_BLOCKED"
    API_DISABLED = "API_DISABLED"
    IP_NOT_WHITELISTED = "IP_NOT_WHITELISTED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RATE_LIMITED = "RATE_LIMITED"

    # Not processed: the request is invalid.
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    INVALID_JSON = "INVALID_JSON"
    MISSING_IDEMPOTENCY_KEY = "MISSING_IDEMPOTENCY_KEY"
    INVALID_IDEMPOTENCY_KEY = "INVALID_IDEMPOTENCY_KEY"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    INVALID_PLAN = "INVALID_PLAN"
    IDEMPOTENCY_KEY_REUSED = "IDEMPOTENCY_KEY_REUSED"

    # Refused by business rules: nothing was charged.
    INSUFFICIENT_BALANCE = "INSUFFICIENT_BALANCE"
    SUBSCRIBER_EXISTS = "SUBSCRIBER_EXISTS"
    SUBSCRIBER_NOT_FOUND = "SUBSCRIBER_NOT_FOUND"
    TRANSACTION_NOT_FOUND = "TRANSACTION_NOT_FOUND"
    PLAN_ALREADY_ACTIVE = "PLAN_ALREADY_ACTIVE"
    DUPLICATE_REQUEST = "DUPLICATE_REQUEST"
    OPERATION_IN_PROGRESS = "OPERATION_IN_PROGRESS"
    PLANS_UNAVAILABLE = "PLANS_UNAVAILABLE"

    # Results of operations.
    OK = "OK"
    PENDING_REVIEW = "PENDING_REVIEW"
    REQUEST_IN_PROGRESS = "REQUEST_IN_PROGRESS"
    PROVIDER_ERROR = "PROVIDER_ERROR"


class Status:
    """The states of an operation: ``operation.status``."""

    PROCESSING = "processing"
    SUCCESS = "success"
    FAILED = "failed"
    NEEDS_REVIEW = "needs_review"


class Reason:
    """Why an operation failed: ``operation.reason``. Nothing was charged, and the key is used
    up: a new attempt is a new action with a new key."""

    #: The provider refused it; see ``operation.provider_message``.
    PROVIDER_REJECTED = "PROVIDER_REJECTED"
    #: The provider could not be reached, and was sent nothing.
    PROVIDER_UNREACHABLE = "PROVIDER_UNREACHABLE"
    #: The outcome was unknown, and the provider then stated that it had not carried it out.
    NOT_CONFIRMED = "NOT_CONFIRMED"
    #: The outcome was unknown, and staff found that it had not been carried out.
    REJECTED_BY_REVIEW = "REJECTED_BY_REVIEW"


class Warnings:
    """The values of ``operation.warnings``."""

    #: A combo's main plan is active and its add-on is not yet; the service retries the add-on.
    COMBO_SECONDARY_FAILED = "COMBO_SECONDARY_FAILED"
