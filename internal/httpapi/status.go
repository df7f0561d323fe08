// Package httpapi serves the API over HTTP: it finds the route, limits what is read,
// has access authorize the request, calls the domain package in charge, and writes the
// result in the envelope. It decides no business rule and never sees a store.
//
// Its Server accepts the connections, so that even a message that is not an HTTP
// request is answered in the envelope.
package httpapi

import (
	"net/http"

	"github.com/coaxhq/coax/internal/fault"
)

// codeInfo is the HTTP status of a code and its meaning in one line.
type codeInfo struct {
	status  int
	meaning string
}

// codes is the only table from codes to HTTP statuses.
var codes = map[fault.Code]codeInfo{
	// Transport and authentication.
	fault.HTTPSRequired:         {http.StatusForbidden, "plain HTTP was used"},
	fault.NotFound:              {http.StatusNotFound, "there is no such endpoint"},
	fault.MethodNotAllowed:      {http.StatusMethodNotAllowed, "the endpoint takes another method, named in Allow"},
	fault.MissingAuthHeaders:    {http.StatusUnauthorized, "one of the four authentication headers is missing"},
	fault.InvalidAPIKey:         {http.StatusUnauthorized, "the key is malformed or unknown"},
	fault.CredentialRevoked:     {http.StatusUnauthorized, "the key was revoked"},
	fault.CredentialExpired:     {http.StatusUnauthorized, "the key was rotated and its grace is over"},
	fault.TimestampExpired:      {http.StatusUnauthorized, "the timestamp is too far from the service's clock"},
	fault.InvalidNonce:          {http.StatusUnauthorized, "the nonce has the wrong length or characters"},
	fault.InvalidSignature:      {http.StatusUnauthorized, "the signature is not that of this request"},
	fault.ReplayDetected:        {http.StatusUnauthorized, "the nonce was used before"},
	fault.PayloadTooLarge:       {http.StatusRequestEntityTooLarge, "the body is larger than 16 KB"},
	fault.TooManyFailedAttempts: {http.StatusTooManyRequests, "the address failed to authenticate too often"},
	fault.InternalError:         {http.StatusInternalServerError, "something broke on our side"},
	fault.ServiceUnavailable:    {http.StatusServiceUnavailable, "the service cannot do this at the moment"},

	// Authorisation.
	fault.LCONotFound:      {http.StatusForbidden, "the operator's account is gone"},
	fault.LCOInactive:      {http.StatusForbidden, "the operator's account is suspended or inactive"},
	fault.APIAccessBlocked: {http.StatusForbidden, "the operator is blocked from the API"},
	fault.APIDisabled:      {http.StatusForbidden, "the API is switched off for the operator"},
	fault.IPNotWhitelisted: {http.StatusForbidden, "the caller's address is not on the whitelist"},
	fault.PermissionDenied: {http.StatusForbidden, "the key may not use this endpoint"},
	fault.RateLimited:      {http.StatusTooManyRequests, "the operator's requests of this minute are used up"},

	// Request validation.
	fault.UnsupportedMediaType:  {http.StatusUnsupportedMediaType, "the body is not announced as JSON"},
	fault.InvalidJSON:           {http.StatusBadRequest, "the body is not one JSON object"},
	fault.MissingIdempotencyKey: {http.StatusBadRequest, "there is no Idempotency-Key"},
	fault.InvalidIdempotencyKey: {http.StatusBadRequest, "the Idempotency-Key has the wrong length or characters"},
	fault.ValidationError:       {http.StatusUnprocessableEntity, "a field is missing or wrong"},
	fault.InvalidPlan:           {http.StatusUnprocessableEntity, "the catalogue has no such plan"},
	fault.IdempotencyKeyReused:  {http.StatusUnprocessableEntity, "the Idempotency-Key belongs to another request"},

	// Business rules.
	fault.InsufficientBalance: {http.StatusPaymentRequired, "the wallet holds less than the price"},
	fault.SubscriberExists:    {http.StatusConflict, "the mobile number has a subscriber"},
	fault.SubscriberNotFound:  {http.StatusNotFound, "the operator has no such subscriber"},
	fault.TransactionNotFound: {http.StatusNotFound, "the operator has no such transaction"},
	fault.PlanAlreadyActive:   {http.StatusConflict, "the plan is the one that is active"},
	fault.DuplicateRequest:    {http.StatusConflict, "the same renewal was made a moment ago"},
	fault.OperationInProgress: {http.StatusConflict, "the customer has another operation under way"},
	fault.PlansUnavailable:    {http.StatusServiceUnavailable, "prices are not verified at the moment"},

	// Outcomes of an operation.
	fault.OK:                {http.StatusOK, "done"},
	fault.PendingReview:     {http.StatusAccepted, "sent to the provider, the outcome is not known yet"},
	fault.RequestInProgress: {http.StatusConflict, "the first request with this key is still running"},
	fault.ProviderError:     {http.StatusBadGateway, "the provider refused; nothing was charged"},

	// Not in the contract: a message that could not be read as a request. net/http may
	// give it a more exact status, such as 431.
	fault.BadRequest: {http.StatusBadRequest, "the message could not be read as a request"},
}

// StatusOf returns the HTTP status of a code, and 500 for a code that is missing from
// the table.
func StatusOf(code fault.Code) int {
	if e, known := codes[code]; known {
		return e.status
	}
	return http.StatusInternalServerError
}
