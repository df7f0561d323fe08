package httpapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/coaxhq/coax/internal/fault"
)

// maxBody is the contract's limit of 16 KB.
const maxBody = 16_384

var errBodyTooLarge = fault.New(fault.PayloadTooLarge, "The body is larger than %d bytes.", maxBody)

// readBody returns the exact bytes of a request's body, which the signature covers for
// every method. A body whose declared length is too large is not read at all; one
// without a declared length is read up to one byte past the limit.
func readBody(r *http.Request) ([]byte, error) {
	switch {
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > maxBody:
		return nil, errBodyTooLarge
	case r.ContentLength > 0:
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, unreadable(err)
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if len(body) > maxBody {
		return nil, errBodyTooLarge
	}
	if err != nil {
		return nil, unreadable(err)
	}
	return body, nil
}

// unreadable is the error for a body that ended early, stalled or was badly chunked.
func unreadable(cause error) error {
	message := "The body could not be read to its end."
	var stalled interface{ Timeout() bool }
	if errors.As(cause, &stalled) && stalled.Timeout() {
		message = "The body did not arrive in time."
	}
	return fault.New(fault.BadRequest, "%s", message).Because(cause)
}
