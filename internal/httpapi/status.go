// Package httpapi speaks HTTP for the service and decides nothing else: it finds
// the route, limits what is read, asks access who is calling, hands the question
// to the room that knows, and puts the answer into the envelope. It refuses to
// judge a business rule and never sees a store.
//
// It also keeps the front door, where connections come in, so that even a message
// that is no HTTP request is answered in the envelope.
package httpapi

import (
	"net/http"

	"github.com/coaxhq/coax/internal/fault"
)

// entry is how a code travels: its status, and what it means in a line.
type entry struct {
	status  int
	meaning string
}

// table is the one place where codes meet HTTP.
var table = map[fault.Code]entry{
	// Transport and authentication.
	fault.HTTPSRequired:         {http.StatusForbidden, "plain HTTP was used"},
	fault.NotFound:              {http.StatusNotFound, "there is no such endpoint"},
	fault.MethodNotAllowed:      {http.StatusMethodNotAllowed, "the endpoint takes another method, named in Allow"},
	fault.MissingAuthHeaders:    {http.StatusUnauthorized, "one of the four authentication headers is missing"},
	fault.InvalidAPIKey:         {http.StatusUnauthorized, "the key is malformed or nobody's"},
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

	// Not the contract's: a message that could not be read as a request. What
	// net/http finds fault with may carry a more exact status, such as 431.
	fault.BadRequest: {http.StatusBadRequest, "the message could not be read as a request"},
}

// StatusOf returns the HTTP status a code travels with. A code that is not in
// the table is a mistake of ours, and says so.
func StatusOf(code fault.Code) int {
	if e, known := table[code]; known {
		return e.status
	}
	return http.StatusInternalServerError
}

// Meaning returns a line on what a code means, for people.
func Meaning(code fault.Code) string { return table[code].meaning }
