package httpapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/coaxhq/coax/internal/fault"
)

// maxBody is the contract's 16 KB, to the byte.
const maxBody = 16_384

var errBodyTooLarge = fault.New(fault.PayloadTooLarge, "The body is larger than %d bytes.", maxBody)

// readBody returns the exact bytes of a request's body, which the signature
// covers, whatever the method. A body that is declared too large is not touched;
// one that turns out too large is read for one byte more than is allowed.
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

// unreadable is the answer to a body that broke off, stalled, or was cut into
// chunks that do not fit together.
func unreadable(cause error) error {
	message := "The body could not be read to its end."
	var stalled interface{ Timeout() bool }
	if errors.As(cause, &stalled) && stalled.Timeout() {
		message = "The body did not arrive in time."
	}
	return fault.New(fault.BadRequest, "%s", message).Because(cause)
}
