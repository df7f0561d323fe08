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

// Error is why a call did not do all it was meant to: the service said so, or no
// answer came that could be read. 202 PENDING_REVIEW is one, too.
type Error struct {
	// Call is what was asked, such as "POST renew".
	Call string
	// Status is the answer's, and 0 if there was none.
	Status int
	// Code is the service's word for it. It is empty if there was no answer, or
	// if somebody else answered (a proxy, say).
	Code Code
	// Message is for people, and its wording may change.
	Message string
	// RequestID is what to quote when asking for help.
	RequestID string
	// RetryAfter is how long the service asks to be left alone, with status 429.
	RetryAfter time.Duration
	// Attempts is how often the request was sent.
	Attempts int
	// Undecided says that the operation may have been carried out, or may yet
	// be, by an attempt of this call. Keep its key and ask again with the same
	// one; another key would be another operation, and could be charged as well.
	Undecided bool

	// Fields says of each field that is wrong what is wrong with it
	// (VALIDATION_ERROR).
	Fields map[string]string
	// Shortfall says what is missing in the wallet (INSUFFICIENT_BALANCE).
	Shortfall *Shortfall
	// PreviousTransactionID is the earlier operation (DUPLICATE_REQUEST).
	PreviousTransactionID string
	// OpenTransactionID is the customer's operation that is still under way or in
	// review (OPERATION_IN_PROGRESS). It is another operation than the one asked for,
	// and empty where it is not this operator's.
	OpenTransactionID string
	// ServerTime is the service's clock (TIMESTAMP_EXPIRED).
	ServerTime time.Time
	// IP is the address that the service saw (IP_NOT_WHITELISTED).
	IP string
	// Operation is what the operation came to, if there is one.
	Operation *Operation
	// Data is the details as they came, where they are not an operation's.
	Data json.RawMessage

	// Err is why there was no answer, if there was none.
	Err error
}

// Shortfall is what is missing in a wallet.
type Shortfall struct {
	WalletBalance  Amount `json:"wallet_balance"`
	RequiredAmount Amount `json:"required_amount"`
	Missing        Amount `json:"shortfall"`
	Currency       string `json:"currency"`
}

// Error says what was asked, what came back, and whether the operation is open.
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

// Is makes errors.Is ask for a code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code != "" && code == e.Code
}

// Unwrap is why there was no answer: a context that ended, or the network's error.
func (e *Error) Unwrap() error { return e.Err }

// Undecided reports whether an error leaves it open what has become or will
// become of an operation: no answer came, or the service does not know yet. Then
// the same call with the same key finds out; another key must not be used.
//
// It speaks of one call. If an earlier call was undecided, a refusal of a later one
// does not close it: a request that was held up on its way can be carried out for
// five minutes yet. Stay with the key.
func Undecided(err error) bool {
	var failure *Error
	return errors.As(err, &failure) && failure.Undecided
}

// envelope is what every answer of the service's is.
type envelope struct {
	Success   bool            `json:"success"`
	RequestID string          `json:"request_id"`
	Code      Code            `json:"code"`
	Message   string          `json:"message"`
	Data      json.RawMessage `json:"data"`
}

// readRefusal makes an error of an answer that is the service's and not a plain
// success.
func readRefusal(status int, header http.Header, from envelope) *Error {
	failure := &Error{
		Status: status, Code: from.Code, Message: from.Message, RequestID: from.RequestID, Data: from.Data,
		RetryAfter: readRetryAfter(header),
	}
	// What a code brings with it. A later version may send other types under
	// the same names; then the name stays empty here, and Data has it.
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

// read takes one field out of an object, if it is there and of that type.
func read(object json.RawMessage, name string, into any) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil || fields[name] == nil {
		return false
	}
	return json.Unmarshal(fields[name], into) == nil
}

func replayed(header http.Header) bool { return header.Get("Idempotent-Replayed") == "true" }

// readRetryAfter reads the seconds that the service sends. Proxies may send a
// date instead, which counts as nothing said.
func readRetryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
