package telemetry

import (
	"crypto/rand"
	"encoding/hex"
)

const requestIDPrefix = "req_"

// NewRequestID returns "req_" and 32 hex characters. It is random rather than counted,
// because several nodes write into one log, and an id must not show a caller how busy
// the service is.
func NewRequestID() string {
	var random [16]byte
	rand.Read(random[:]) // never fails: the program ends if there is no randomness

	var id [len(requestIDPrefix) + 2*len(random)]byte
	copy(id[:], requestIDPrefix)
	hex.Encode(id[len(requestIDPrefix):], random[:])
	return string(id[:])
}
