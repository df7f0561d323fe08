package client

import "slices"

// Code is a result code of the service. It is an error, so that
//
//	errors.Is(err, client.InsufficientBalance)
//
// compares the code. New codes may be added within version 1; they are returned
// unchanged, and Error.Status tells their kind.
type Code string

// Error is the code itself.
func (c Code) Error() string { return string(c) }

// Not processed: transport and authentication.
const (
	HTTPSRequired         Code = "HTTPS_REQUIRED"
	BadRequest            Code = "BAD_REQUEST"
	NotFound              Code = "NOT_FOUND"
	MethodNotAllowed      Code = "METHOD_NOT_ALLOWED"
	MissingAuthHeaders    Code = "MISSING_AUTH_HEADERS"
	InvalidAPIKey         Code = "INVALID_API_KEY"
	CredentialRevoked     Code = "CREDENTIAL_REVOKED"
	CredentialExpired     Code = "CREDENTIAL_EXPIRED"
	TimestampExpired      Code = "TIMESTAMP_EXPIRED"
	InvalidNonce          Code = "INVALID_NONCE"
	InvalidSignature      Code = "INVALID_SIGNATURE"
	ReplayDetected        Code = "REPLAY_DETECTED"
	PayloadTooLarge       Code = "PAYLOAD_TOO_LARGE"
	TooManyFailedAttempts Code = "TOO_MANY_FAILED_ATTEMPTS"
	InternalError         Code = "INTERNAL_ERROR"
	ServiceUnavailable    Code = "SERVICE_UNAVAILABLE"
)

// Not processed: the operator's account or key is not allowed to.
const (
	LCONotFound      Code = "LCO_NOT_FOUND"
	LCOInactive      Code = "LCO_INACTIVE"
	APIAccessBlocked Code = "API_ACCESS_BLOCKED"
	APIDisabled      Code = "API_DISABLED"
	IPNotWhitelisted Code = "IP_NOT_WHITELISTED"
	PermissionDenied Code = "PERMISSION_DENIED"
	RateLimited      Code = "RATE_LIMITED"
)

// Not processed: the request is invalid.
const (
	UnsupportedMediaType  Code = "UNSUPPORTED_MEDIA_TYPE"
	InvalidJSON           Code = "INVALID_JSON"
	MissingIdempotencyKey Code = "MISSING_IDEMPOTENCY_KEY"
	InvalidIdempotencyKey Code = "INVALID_IDEMPOTENCY_KEY"
	ValidationError       Code = "VALIDATION_ERROR"
	InvalidPlan           Code = "INVALID_PLAN"
	IdempotencyKeyReused  Code = "IDEMPOTENCY_KEY_REUSED"
)

// Refused by business rules: nothing was charged.
const (
	InsufficientBalance Code = "INSUFFICIENT_BALANCE"
	SubscriberExists    Code = "SUBSCRIBER_EXISTS"
	SubscriberNotFound  Code = "SUBSCRIBER_NOT_FOUND"
	TransactionNotFound Code = "TRANSACTION_NOT_FOUND"
	PlanAlreadyActive   Code = "PLAN_ALREADY_ACTIVE"
	DuplicateRequest    Code = "DUPLICATE_REQUEST"
	OperationInProgress Code = "OPERATION_IN_PROGRESS"
	PlansUnavailable    Code = "PLANS_UNAVAILABLE"
)

// Results of operations.
const (
	OK                Code = "OK"
	PendingReview     Code = "PENDING_REVIEW"
	RequestInProgress Code = "REQUEST_IN_PROGRESS"
	ProviderError     Code = "PROVIDER_ERROR"
)

var codes = []Code{
	HTTPSRequired, BadRequest, NotFound, MethodNotAllowed, MissingAuthHeaders, InvalidAPIKey, CredentialRevoked,
	CredentialExpired, TimestampExpired, InvalidNonce, InvalidSignature, ReplayDetected, PayloadTooLarge,
	TooManyFailedAttempts, InternalError, ServiceUnavailable,
	LCONotFound, LCOInactive, APIAccessBlocked, APIDisabled, IPNotWhitelisted, PermissionDenied, RateLimited,
	UnsupportedMediaType, InvalidJSON, MissingIdempotencyKey, InvalidIdempotencyKey, ValidationError, InvalidPlan,
	IdempotencyKeyReused,
	InsufficientBalance, SubscriberExists, SubscriberNotFound, TransactionNotFound, PlanAlreadyActive, DuplicateRequest,
	OperationInProgress, PlansUnavailable,
	OK, PendingReview, RequestInProgress, ProviderError,
}

// Codes lists the codes that this version of the client knows.
func Codes() []Code { return slices.Clone(codes) }
