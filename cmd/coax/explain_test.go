package main

import (
	"testing"

	"github.com/coaxhq/coax/client"
)

func TestAdvice_ForEveryCodeAndReason(t *testing.T) {
	for _, code := range client.Codes() {
		if advice[code] == "" {
			t.Errorf("call --explain does not say what to do after %s", code)
		}
	}
	if len(advice) != len(client.Codes()) {
		t.Errorf("there is advice for %d codes; want %d", len(advice), len(client.Codes()))
	}
	for _, reason := range []client.Reason{client.ProviderRejected, client.ProviderUnreachable, client.NotConfirmed, client.RejectedByReview} {
		if adviseReason[reason] == "" {
			t.Errorf("call --explain does not say what to do about %s", reason)
		}
	}
	for status, want := range map[int]string{
		503: "Send it again later, with the same idempotency key.",
		409: "It was refused. Read the message, and do not repeat it unchanged.",
		200: "Read the message: this version of coax does not know the code.",
	} {
		if got := advise("NEW_CODE", status); got != want {
			t.Errorf("an unknown code with status %d: %q; want %q", status, got, want)
		}
	}
}
