package fault

// Code is a machine-readable result. Clients branch on it, so a code is never
// renamed and never reused for another meaning.
type Code string

// Transport and authentication: nothing was processed.
const (
	HTTPSRequired         Code = "HTTPS_REQUIRED"
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

// Authorisation.
const (
	LCONotFound      Code = "LCO_NOT_FOUND"
	LCOInactive      Code = "LCO_INACTIVE"
	APIAccessBlocked Code = "API_ACCESS_BLOCKED"
	APIDisabled      Code = "API_DISABLED"
	IPNotWhitelisted Code = "IP_NOT_WHITELISTED"
	PermissionDenied Code = "PERMISSION_DENIED"
	RateLimited      Code = "RATE_LIMITED"
)

// Request validation.
const (
	UnsupportedMediaType  Code = "UNSUPPORTED_MEDIA_TYPE"
	InvalidJSON           Code = "INVALID_JSON"
	MissingIdempotencyKey Code = "MISSING_IDEMPOTENCY_KEY"
	InvalidIdempotencyKey Code = "INVALID_IDEMPOTENCY_KEY"
	ValidationError       Code = "VALIDATION_ERROR"
	InvalidPlan           Code = "INVALID_PLAN"
	IdempotencyKeyReused  Code = "IDEMPOTENCY_KEY_REUSED"
)

// Business rules: the provider was not called and nothing was charged.
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

// Outcomes of an operation.
const (
	OK                Code = "OK"
	PendingReview     Code = "PENDING_REVIEW"
	RequestInProgress Code = "REQUEST_IN_PROGRESS"
	ProviderError     Code = "PROVIDER_ERROR"
)

// BadRequest is the only code that the contract does not list: the message could not be read as
// HTTP. The contract allows new codes within v1.
const BadRequest Code = "BAD_REQUEST"

// Contract lists every code of the contract once, in its order.
var Contract = []Code{
	HTTPSRequired, NotFound, MethodNotAllowed, MissingAuthHeaders, InvalidAPIKey, CredentialRevoked,
	CredentialExpired, TimestampExpired, InvalidNonce, InvalidSignature, ReplayDetected, PayloadTooLarge,
	TooManyFailedAttempts, InternalError, ServiceUnavailable,

	LCONotFound, LCOInactive, APIAccessBlocked, APIDisabled, IPNotWhitelisted, PermissionDenied, RateLimited,

	UnsupportedMediaType, InvalidJSON, MissingIdempotencyKey, InvalidIdempotencyKey, ValidationError, InvalidPlan,
	IdempotencyKeyReused,

	InsufficientBalance, SubscriberExists, SubscriberNotFound, TransactionNotFound, PlanAlreadyActive,
	DuplicateRequest, OperationInProgress, PlansUnavailable,

	OK, PendingReview, RequestInProgress, ProviderError,
}
