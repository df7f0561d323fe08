<?php

declare(strict_types=1);

namespace Coax;

/**
 * The result codes of the service. New codes may be added within version 1; they are
 * returned unchanged, and the status tells their kind.
 */
final class Code
{
    // Not processed: transport and authentication.
    public const HTTPS_REQUIRED = 'HTTPS_REQUIRED';
    public const BAD_REQUEST = 'BAD_REQUEST';
    public const NOT_FOUND = 'NOT_FOUND';
    public const METHOD_NOT_ALLOWED = 'METHOD_NOT_ALLOWED';
    public const MISSING_AUTH_HEADERS = 'MISSING_AUTH_HEADERS';
    public const INVALID_API_KEY = 'INVALID_API_KEY';
    public const CREDENTIAL_REVOKED = 'CREDENTIAL_REVOKED';
    public const CREDENTIAL_EXPIRED = 'CREDENTIAL_EXPIRED';
    public const TIMESTAMP_EXPIRED = 'TIMESTAMP_EXPIRED';
    public const INVALID_NONCE = 'INVALID_NONCE';
    public const INVALID_SIGNATURE = 'INVALID_SIGNATURE';
    public const REPLAY_DETECTED = 'REPLAY_DETECTED';
    public const PAYLOAD_TOO_LARGE = 'PAYLOAD_TOO_LARGE';
    public const TOO_MANY_FAILED_ATTEMPTS = 'TOO_MANY_FAILED_ATTEMPTS';
    public const INTERNAL_ERROR = 'INTERNAL_ERROR';
    public const SERVICE_UNAVAILABLE = 'SERVICE_UNAVAILABLE';

    // Not processed: the operator's account or key is not allowed to.
    public const LCO_NOT_FOUND = 'LCO_NOT_FOUND';
    public const LCO_INACTIVE = 'LCO_INACTIVE';
    public const API_ACCESS_BLOCKED = 'API_ACCESS_BLOCKED';
    public const API_DISABLED = 'API_DISABLED';
    public const IP_NOT_WHITELISTED = 'IP_NOT_WHITELISTED';
    public const PERMISSION_DENIED = 'PERMISSION_DENIED';
    public const RATE_LIMITED = 'RATE_LIMITED';

    // Not processed: the request is invalid.
    public const UNSUPPORTED_MEDIA_TYPE = 'UNSUPPORTED_MEDIA_TYPE';
    public const INVALID_JSON = 'INVALID_JSON';
    public const MISSING_IDEMPOTENCY_KEY = 'MISSING_IDEMPOTENCY_KEY';
    public const INVALID_IDEMPOTENCY_KEY = 'INVALID_IDEMPOTENCY_KEY';
    public const VALIDATION_ERROR = 'VALIDATION_ERROR';
    public const INVALID_PLAN = 'INVALID_PLAN';
    public const IDEMPOTENCY_KEY_REUSED = 'IDEMPOTENCY_KEY_REUSED';

    // Refused by business rules: nothing was charged.
    public const INSUFFICIENT_BALANCE = 'INSUFFICIENT_BALANCE';
    public const SUBSCRIBER_EXISTS = 'SUBSCRIBER_EXISTS';
    public const SUBSCRIBER_NOT_FOUND = 'SUBSCRIBER_NOT_FOUND';
    public const TRANSACTION_NOT_FOUND = 'TRANSACTION_NOT_FOUND';
    public const PLAN_ALREADY_ACTIVE = 'PLAN_ALREADY_ACTIVE';
    public const DUPLICATE_REQUEST = 'DUPLICATE_REQUEST';
    public const OPERATION_IN_PROGRESS = 'OPERATION_IN_PROGRESS';
    public const PLANS_UNAVAILABLE = 'PLANS_UNAVAILABLE';

    // Results of operations.
    public const OK = 'OK';
    public const PENDING_REVIEW = 'PENDING_REVIEW';
    public const REQUEST_IN_PROGRESS = 'REQUEST_IN_PROGRESS';
    public const PROVIDER_ERROR = 'PROVIDER_ERROR';
}
