package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// A provider may take no contact data. Only a rejection of this order is one, whatever the status.
func TestUpdateContact_Unsupported(t *testing.T) {
	applied := `{"reference":"CT1","status":"applied","subscriber_id":"100234","mobile":"9812345678","transaction_id":"X1"}`
	rejected := `{"reference":"CT1","status":"rejected","message":"No such box."}`
	for _, tt := range []struct {
		name      string
		code      int
		body      string
		outcome   operation.Outcome
		supported bool
	}{
		{"taken", 200, applied, operation.Confirmed, true},
		{"rejected", 200, rejected, operation.Rejected, true},
		{"rejected with 404", 404, rejected, operation.Rejected, true},
		{"no such call", 404, `{"error":"not found"}`, operation.Unknown, false},
		{"no such call, as a page", 404, "<html>", operation.Unknown, false},
		{"no such method", 405, `{}`, operation.Unknown, false},
		{"not implemented", 501, `{}`, operation.Unknown, false},
		{"taken, it says, by a page that is not there", 404, applied, operation.Unknown, false},
		{"unavailable", 503, `upstream unavailable`, operation.Unknown, true},
		{"about another customer", 200, `{"reference":"CT1","status":"applied","subscriber_id":"1","mobile":"9812345678","transaction_id":"X1"}`, operation.Unknown, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.code)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer provider.Close()
			g := open(t, Config{URL: provider.URL})
			reply, supported := g.UpdateContact(t.Context(), operation.ContactUpdate{Reference: "CT1", SubscriberID: "100234", Mobile: "9812345678", Version: 1})
			if reply.Outcome != tt.outcome || supported != tt.supported {
				t.Errorf("%+v, supported %v; want %v, %v", reply, supported, tt.outcome, tt.supported)
			}
		})
	}
}
