// The result codes of the service. New codes may be added within version 1 of the API;
// they are passed on unchanged.
export const Code = names([
  "OK",
  "PENDING_REVIEW",
  "REQUEST_IN_PROGRESS",
  "PROVIDER_ERROR",
  // Transport and authentication.
  "HTTPS_REQUIRED",
  "BAD_REQUEST",
  "NOT_FOUND",
  "METHOD_NOT_ALLOWED",
  "MISSING_AUTH_HEADERS",
  "INVALID_API_KEY",
  "CREDENTIAL_REVOKED",
  "CREDENTIAL_EXPIRED",
  "TIMESTAMP_EXPIRED",
  "INVALID_NONCE",
  "INVALID_SIGNATURE",
  "REPLAY_DETECTED",
  "PAYLOAD_TOO_LARGE",
  "TOO_MANY_FAILED_ATTEMPTS",
  "INTERNAL_ERROR",
  "SERVICE_UNAVAILABLE",
  // The operator's account or key is not allowed to.
  "LCO_NOT_FOUND",
  "LCO_INACTIVE",
  "API_ACCESS_BLOCKED",
  "API_DISABLED",
  "IP_NOT_WHITELISTED",
  "PERMISSION_DENIED",
  "RATE_LIMITED",
  // The request is invalid.
  "UNSUPPORTED_MEDIA_TYPE",
  "INVALID_JSON",
  "MISSING_IDEMPOTENCY_KEY",
  "INVALID_IDEMPOTENCY_KEY",
  "VALIDATION_ERROR",
  "INVALID_PLAN",
  "IDEMPOTENCY_KEY_REUSED",
  // Refused by business rules.
  "INSUFFICIENT_BALANCE",
  "SUBSCRIBER_EXISTS",
  "SUBSCRIBER_NOT_FOUND",
  "TRANSACTION_NOT_FOUND",
  "PLAN_ALREADY_ACTIVE",
  "DUPLICATE_REQUEST",
  "OPERATION_IN_PROGRESS",
  "PLANS_UNAVAILABLE",
]);

// Why an operation failed.
export const Reason = names(["PROVIDER_REJECTED", "PROVIDER_UNREACHABLE", "NOT_CONFIRMED", "REJECTED_BY_REVIEW"]);

// What a successful operation may warn of.
export const Warning = names(["COMBO_SECONDARY_FAILED"]);

// The states of an operation.
export const Status = Object.freeze({
  PROCESSING: "processing",
  SUCCESS: "success",
  FAILED: "failed",
  NEEDS_REVIEW: "needs_review",
});

function names(list) {
  return Object.freeze(Object.fromEntries(list.map((name) => [name, name])));
}
