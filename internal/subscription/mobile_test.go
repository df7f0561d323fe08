package subscription_test

import (
	"testing"

	"github.com/coaxhq/coax/internal/subscription"
)

func TestReadMobile_AsPeopleWriteIt(t *testing.T) {
	for _, text := range []string{
		"9812345678", "+919812345678", "+91 98123 45678", "+91-98123-45678", "0091 9812345678", "919812345678", "09812345678",
		"(+91) 98123.45678", "98123\u00a045678", "98123\u201145678",
	} {
		if got, ok := subscription.ReadMobile(text); !ok || got != "9812345678" {
			t.Errorf("%q is read as %q, %t", text, got, ok)
		}
	}
	// Ten digits that begin with 91 or 0 are a number of their own.
	for _, text := range []string{"9198123456", "0981234567"} {
		if got, ok := subscription.ReadMobile(text); !ok || got != text {
			t.Errorf("%q is read as %q, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "+91", "981234567", "98123456789", "+929812345678", "00919812345", "9.81235E+09", "98123x5678", "९८१२३४५६७८", "9812345678/9812345679"} {
		if got, ok := subscription.ReadMobile(text); ok {
			t.Errorf("%q is read as %q; want it refused", text, got)
		}
	}
}
