// CoaxError is the class of all errors that a call ends with. Its subclass follows from
// the service's code.
export class CoaxError extends Error {
  constructor({ message, cause, ...details }) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = "";
    this.status = 0;
    this.requestId = "";
    this.attempts = 0;
    this.retryAfter = 0;
    this.undecided = false;
    for (const [name, value] of Object.entries(details)) {
      if (value !== undefined) {
        this[name] = value;
      }
    }
  }

  toJSON() {
    return { name: this.name, message: this.message, ...this };
  }
}

export class InvalidRequestError extends CoaxError {}
export class AuthenticationError extends CoaxError {}
export class AccessDeniedError extends CoaxError {}
export class RateLimitError extends CoaxError {}
export class InsufficientBalanceError extends CoaxError {}
export class NotFoundError extends CoaxError {}
export class ConflictError extends CoaxError {}
export class UnavailableError extends CoaxError {}
export class ProviderError extends CoaxError {}
export class PendingError extends CoaxError {}
export class NoAnswerError extends CoaxError {}

const CLASSES = [
  [CoaxError, "CoaxError", ""],
  [
    InvalidRequestError,
    "InvalidRequestError",
    "BAD_REQUEST NOT_FOUND METHOD_NOT_ALLOWED PAYLOAD_TOO_LARGE UNSUPPORTED_MEDIA_TYPE INVALID_JSON " +
      "MISSING_IDEMPOTENCY_KEY INVALID_IDEMPOTENCY_KEY VALIDATION_ERROR INVALID_PLAN IDEMPOTENCY_KEY_REUSED",
  ],
  [
    AuthenticationError,
    "AuthenticationError",
    "HTTPS_REQUIRED MISSING_AUTH_HEADERS INVALID_API_KEY CREDENTIAL_REVOKED CREDENTIAL_EXPIRED TIMESTAMP_EXPIRED " +
      "INVALID_NONCE INVALID_SIGNATURE REPLAY_DETECTED",
  ],
  [
    AccessDeniedError,
    "AccessDeniedError",
    "LCO_NOT_FOUND LCO_INACTIVE API_ACCESS_BLOCKED API_DISABLED IP_NOT_WHITELISTED PERMISSION_DENIED",
  ],
  [RateLimitError, "RateLimitError", "RATE_LIMITED TOO_MANY_FAILED_ATTEMPTS"],
  [InsufficientBalanceError, "InsufficientBalanceError", "INSUFFICIENT_BALANCE"],
  [NotFoundError, "NotFoundError", "SUBSCRIBER_NOT_FOUND TRANSACTION_NOT_FOUND"],
  [ConflictError, "ConflictError", "SUBSCRIBER_EXISTS PLAN_ALREADY_ACTIVE DUPLICATE_REQUEST OPERATION_IN_PROGRESS"],
  [UnavailableError, "UnavailableError", "INTERNAL_ERROR SERVICE_UNAVAILABLE PLANS_UNAVAILABLE"],
  [ProviderError, "ProviderError", "PROVIDER_ERROR"],
  [PendingError, "PendingError", "PENDING_REVIEW REQUEST_IN_PROGRESS"],
  [NoAnswerError, "NoAnswerError", ""],
];

const BY_CODE = new Map();
for (const [type, name, codes] of CLASSES) {
  // On the prototype, so that the stack trace begins with it.
  Object.defineProperty(type.prototype, "name", { value: name, writable: true, configurable: true });
  for (const code of codes.split(" ").filter(Boolean)) {
    BY_CODE.set(code, type);
  }
}

const BY_STATUS = new Map([
  [401, AuthenticationError],
  [402, InsufficientBalanceError],
  [403, AccessDeniedError],
  [404, NotFoundError],
  [409, ConflictError],
  [429, RateLimitError],
]);

// errorOf makes the error of a failure: the properties that CoaxError has, and its cause.
export function errorOf(failure) {
  return new (classOf(failure.code ?? "", failure.status ?? 0))(failure);
}

function classOf(code, status) {
  if (code === "") {
    return NoAnswerError;
  }
  const known = BY_CODE.get(code) ?? BY_STATUS.get(status);
  if (known !== undefined) {
    return known;
  }
  if (status >= 500) {
    return UnavailableError;
  }
  if (status >= 400) {
    return InvalidRequestError;
  }
  // The service accepted the request, and the SDK does not know the result.
  return status >= 200 && status < 300 ? PendingError : CoaxError;
}
