package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error is returned if the service refused a call or the response could not be
// read. 202 PENDING_REVIEW is an Error, too.
type Error struct {
	// Call is the method and the endpoint, such as "POST renew".
	Call string
	// Status is the HTTP status, and 0 without a response.
	Status int
	// Code is the service's result code. It is empty without a response, or if the
	// response is not the service's (but a proxy's, say).
	Code Code
	// Message is human-readable; its wording may change.
	Message string
	// RequestID identifies the request to support.
	RequestID string
	// RetryAfter is the wait that the service asks for, with status 429.
	RetryAfter time.Duration
	// Attempts is how often the request was sent.
	Attempts int
	// Undecided means that an attempt of this call may have carried out the
	// operation, or may still do so. Call again with the same key; another key would
	// be another operation, and could be charged as well.
	Undecided bool

	// Fields has a message for each invalid field (VALIDATION_ERROR).
	Fields map[string]string
	// Shortfall is the amount missing in the wallet (INSUFFICIENT_BALANCE).
	Shortfall *Shortfall
	// PreviousTransactionID is the earlier operation (DUPLICATE_REQUEST).
	PreviousTransactionID string
	// OpenTransactionID is the customer's other operation that is in progress or in
	// review (OPERATION_IN_PROGRESS). It is empty if that is another operator's.
	OpenTransactionID string
	// ServerTime is the service's clock (TIMESTAMP_EXPIRED).
	ServerTime time.Time
	// IP is the address that the service saw (IP_NOT_WHITELISTED).
	IP string
	// Operation is the operation's state, if the response has it.
	Operation *Operation
	// Data is the raw data of the response, unless it is an operation.
	Data json.RawMessage

	// Err is why there was no valid response.
	Err error
}

// Shortfall is the amount missing in a wallet.
type Shortfall struct {
	WalletBalance  Amount `json:"wallet_balance"`
	RequiredAmount Amount `json:"required_amount"`
	Missing        Amount `json:"shortfall"`
	Currency       string `json:"currency"`
}

// Error describes the call, the response, and whether the operation is undecided.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.Call)
	switch {
	case e.Code != "":
		fmt.Fprintf(&text, ": %s: %s", e.Code, strings.TrimRight(e.Message, ". "))
	case e.Status != 0:
		fmt.Fprintf(&text, ": status %d and an answer that is not the service's", e.Status)
	default:
		text.WriteString(": no answer")
	}
	for _, field := range slices.Sorted(maps.Keys(e.Fields)) {
		fmt.Fprintf(&text, "; %s: %s", field, strings.TrimRight(e.Fields[field], ". "))
	}
	if e.Err != nil {
		fmt.Fprintf(&text, ": %v", e.Err)
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&text, " (%d attempts)", e.Attempts)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&text, " [%s]", e.RequestID)
	}
	if e.Undecided {
		text.WriteString("; it may have been carried out: ask again with the same idempotency key")
	}
	return text.String()
}

// Is makes errors.Is compare the code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code != "" && code == e.Code
}

// Unwrap returns why there was no valid response: the context's or the network's
// error.
func (e *Error) Unwrap() error { return e.Err }

// Undecided reports whether an operation's outcome is unknown after an error: there
// was no response, or the service does not know the outcome yet. Repeat the same
// call with the same key to find out; do not use another key.
//
// It is about one call. If an earlier call was undecided, a refusal of a later one
// does not decide it: a delayed request can still be accepted for five minutes.
// Continue with the same key.
func Undecided(err error) bool {
	var failure *Error
	return errors.As(err, &failure) && failure.Undecided
}

// CodeOf returns the service's code of an error. It is empty without an error, and if there was
// no response of the service.
func CodeOf(err error) Code {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Code
	}
	return ""
}

// envelope is the body of every response of the service.
type envelope struct {
	Success   bool            `json:"success"`
	RequestID string          `json:"request_id"`
	Code      Code            `json:"code"`
	Message   string          `json:"message"`
	Data      json.RawMessage `json:"data"`
}

// readRefusal returns the error of a response of the service that is not a success.
func readRefusal(status int, header http.Header, from envelope) *Error {
	failure := &Error{
		Status: status, Code: from.Code, Message: from.Message, RequestID: from.RequestID, Data: from.Data,
		RetryAfter: readRetryAfter(header),
	}
	// The details of the codes. A later version may send other types under the same
	// names; then the field stays empty, and Data has it.
	read(from.Data, "fields", &failure.Fields)
	read(from.Data, "previous_transaction_id", &failure.PreviousTransactionID)
	read(from.Data, "ip", &failure.IP)
	var seconds int64
	if read(from.Data, "server_time", &seconds) {
		failure.ServerTime = time.Unix(seconds, 0)
	}
	if read(from.Data, "shortfall", new(Amount)) {
		failure.Shortfall = new(Shortfall)
		if json.Unmarshal(from.Data, failure.Shortfall) != nil {
			failure.Shortfall = nil
		}
	}
	if from.Code == OperationInProgress {
		read(from.Data, "transaction_id", &failure.OpenTransactionID)
	} else if read(from.Data, "transaction_id", new(string)) {
		failure.Operation = new(Operation)
		if json.Unmarshal(from.Data, failure.Operation) != nil {
			failure.Operation = nil
		} else {
			failure.Operation.Replayed = replayed(header)
			failure.Data = nil // it may hold a password
		}
	}
	return failure
}

// read decodes one field of an object; false if it is missing or of another type.
func read(object json.RawMessage, name string, into any) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil || fields[name] == nil {
		return false
	}
	return json.Unmarshal(fields[name], into) == nil
}

func replayed(header http.Header) bool { return header.Get("Idempotent-Replayed") == "true" }

// readRetryAfter reads the seconds that the service sends. A date, which proxies
// may send, is ignored.
func readRetryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
