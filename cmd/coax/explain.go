package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/signing"
)

// recorder is a transport that keeps the request it sent.
type recorder struct {
	*http.Transport
	sent *http.Request
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.sent = request
	return r.Transport.RoundTrip(request)
}

// explainRequest prints what was signed and sent.
func explainRequest(w io.Writer, sent *http.Request, body []byte) {
	printLines(w, signing.Request{
		Method: sent.Method, Path: apiPathOf(sent), RawQuery: sent.URL.RawQuery,
		Timestamp: sent.Header.Get("X-Timestamp"), Nonce: sent.Header.Get("X-Nonce"), Body: body,
	})
	fmt.Fprintf(w, "\nSent to %s://%s with:\n", sent.URL.Scheme, sent.URL.Host)
	for _, name := range []string{"X-API-Key", "X-Timestamp", "X-Nonce", "X-Signature", "Content-Type", "Idempotency-Key"} {
		if value := sent.Header.Get(name); value != "" {
			fmt.Fprintf(w, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintf(w, "and a body of %d bytes.\n\nWhat came back:\n", len(body))
}

// apiPathOf returns the path that is signed: what a proxy has in front of it is not.
func apiPathOf(sent *http.Request) string {
	path := sent.URL.EscapedPath()
	if at := strings.Index(path, "/api/v1/"); at > 0 {
		return path[at:]
	}
	return path
}

// explainNoAnswer prints what to do if no answer came.
func explainNoAnswer(w io.Writer, sent *http.Request) {
	fmt.Fprintln(w, "No answer.\n\nWhat to do next:")
	if sent.Method == http.MethodPost {
		fmt.Fprintln(w, "The service may have carried it out. "+sameKeyLater)
		return
	}
	fmt.Fprintln(w, "A look-up changes nothing: send it again.")
}

// explainAnswer prints what to do about an answer.
func explainAnswer(w io.Writer, sent *http.Request, response *client.Response) {
	var answer struct {
		Code client.Code `json:"code"`
		Data struct {
			Status client.Status `json:"status"`
			Reason client.Reason `json:"reason"`
		} `json:"data"`
	}
	fmt.Fprintln(w, "\nWhat to do next:")
	if json.Unmarshal(response.Body, &answer) != nil || answer.Code == "" {
		fmt.Fprintf(w, "The answer is not the service's, but of a proxy or another program at that address, so it says nothing about the request. ")
		explainNoEnvelope(w, sent)
		return
	}
	fmt.Fprintln(w, advise(answer.Code, response.Status))
	switch after := response.Header.Get("Retry-After"); {
	case after != "":
		fmt.Fprintf(w, "Wait %s seconds.\n", after)
	case answer.Data.Reason != "":
		fmt.Fprintln(w, adviseReason[answer.Data.Reason])
	case answer.Code == client.OK && answer.Data.Status == client.NeedsReview:
		fmt.Fprintln(w, "The outcome is not known yet: ask again later.")
	}
}

func explainNoEnvelope(w io.Writer, sent *http.Request) {
	if sent.Method == http.MethodPost {
		fmt.Fprintln(w, sameKeyLater)
		return
	}
	fmt.Fprintln(w, "Check base_url, and send it again.")
}

const sameKeyLater = "Send it again with the same idempotency key and the same body: it is charged once. Never take another key for it."

// advise returns what to do after an answer with a code; by the status if the code is not
// known.
func advise(code client.Code, status int) string {
	if text, known := advice[code]; known {
		return text
	}
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		return "Send it again later, with the same idempotency key."
	case status >= 400:
		return "It was refused. Read the message, and do not repeat it unchanged."
	}
	return "Read the message: this version of coax does not know the code."
}

// advice is what to do after each code.
var advice = map[client.Code]string{
	client.OK:                    "Nothing: it is done. Store the transaction_id with your order, if it has one.",
	client.PendingReview:         "The provider's outcome is not known yet and the amount is held. Poll GET transaction?idempotency_key=… until status is success or failed. Start nothing else for this customer.",
	client.RequestInProgress:     "The first request with this key is still running. Poll GET transaction?idempotency_key=… for its outcome.",
	client.ProviderError:         "It was not carried out and nothing was charged. This key is used up: another attempt is a new action with a new key.",
	client.HTTPSRequired:         "Use https:// in base_url.",
	client.BadRequest:            "Your HTTP library sent something that is not a well-formed request: see the message.",
	client.NotFound:              "There is no such endpoint: check the path. The seven are activate, renew, advance-renew, balance, plans, subscription and transaction.",
	client.MethodNotAllowed:      "Use the method in the header Allow.",
	client.MissingAuthHeaders:    "Send X-API-Key, X-Timestamp, X-Nonce and X-Signature, each once.",
	client.InvalidAPIKey:         "Check the API key for missing or extra characters. It begins with cxk_.",
	client.CredentialRevoked:     "The key was revoked: ask the administrator for a new one.",
	client.CredentialExpired:     "The key was rotated and its grace period is over: use the new one.",
	client.TimestampExpired:      "Set your clock, or correct it by data.server_time, and sign again. Seconds are expected, not milliseconds.",
	client.InvalidNonce:          "Use a new nonce of 16 to 64 characters from A-Z a-z 0-9 _ and - for each request.",
	client.InvalidSignature:      "Compare the lines above with what your own code signs: coax sign METHOD PATH --compare FILE shows the first byte that differs. Check the secret, too.",
	client.ReplayDetected:        "The nonce was used before: sign again with a new one. If you did not send it twice, something on the way did.",
	client.PayloadTooLarge:       "The body may have 16 KB at most.",
	client.TooManyFailedAttempts: "Too many requests from your address failed authentication: wait, and mend what made them fail.",
	client.InternalError:         "Send it again with the same idempotency key. Give the request_id to support if it stays.",
	client.ServiceUnavailable:    "Send it again later with the same idempotency key.",
	client.LCONotFound:           "The operator's account no longer exists: ask the administrator.",
	client.LCOInactive:           "The operator's account is suspended: ask the administrator.",
	client.APIAccessBlocked:      "API access of the operator is blocked: ask the administrator.",
	client.APIDisabled:           "API access of the operator is switched off: ask the administrator.",
	client.IPNotWhitelisted:      "Have the address in data.ip added to the operator's whitelist.",
	client.PermissionDenied:      "The key lacks the permission for this endpoint: ask the administrator.",
	client.RateLimited:           "The operator's requests of this minute are used up: send it again after Retry-After, with the same key.",
	client.UnsupportedMediaType:  "Send Content-Type: application/json.",
	client.InvalidJSON:           "The body has to be one JSON object.",
	client.MissingIdempotencyKey: "A POST needs an Idempotency-Key: make one for this business action, store it, and send it.",
	client.InvalidIdempotencyKey: "A key has 8 to 100 characters from A-Z a-z 0-9 _ . : and -.",
	client.ValidationError:       "Mend the fields in data.fields, and send it again with the same key.",
	client.InvalidPlan:           "The plan is not in the catalogue: see GET plans. The key is still free.",
	client.IdempotencyKeyReused:  "The key belongs to another request. Two orders must not share a key: look for the mistake in your program.",
	client.InsufficientBalance:   "Nothing was charged. Top up data.shortfall, and send it again with the same key.",
	client.SubscriberExists:      "The number has a subscriber already: renew it instead.",
	client.SubscriberNotFound:    "This operator has no such subscriber: check the id or the number.",
	client.TransactionNotFound:   "Nothing was reserved under it so far. A request may still be on its way: send the operation itself again with the same key.",
	client.PlanAlreadyActive:     "An advance renewal needs another plan than the active one: use renew for the same plan.",
	client.DuplicateRequest:      "The same renewal succeeded less than two minutes ago, as data.previous_transaction_id. If this is really another one, wait.",
	client.OperationInProgress:   "Another operation for this customer is running: send it again in a few seconds with the same key.",
	client.PlansUnavailable:      "Prices cannot be verified with the provider now: send it again later.",
}

// adviseReason is what to do about each reason of a failed operation.
var adviseReason = map[client.Reason]string{
	client.ProviderRejected:    "The provider refused it: provider_message says why. Clear that up before another attempt.",
	client.ProviderUnreachable: "The provider could not be reached. Try again in some minutes, with a new key.",
	client.NotConfirmed:        "The provider stated afterwards that it had not carried it out. Try again with a new key.",
	client.RejectedByReview:    "Staff found that it had not been carried out. Try again with a new key.",
}
