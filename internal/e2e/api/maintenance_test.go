package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// In maintenance a known key is answered as usual and a new one is refused, whatever its
// body; look-ups and settlement continue.
func TestMaintenance_RefusesNewKeysOnly(t *testing.T) {
	b := newBiz(t)
	done, later := b.key(), b.key()
	paid := b.good("activate")
	if got := b.post(b.me, "activate", done, paid.json()); got.Code != fault.OK {
		t.Fatalf("before maintenance: %s", got.Raw)
	}
	review := b.key()
	b.StartReview(b.me, "activate", "timeout_applied", "9876500001", review)
	if _, err := b.Admin.StartMaintenance(t.Context(), "restore"); err != nil {
		t.Fatal(err)
	}
	if got := b.Metric("coax_maintenance"); got != 1 {
		t.Errorf("coax_maintenance is %v; want 1", got)
	}
	before, orders := b.WalletPaise(b.me), b.ProviderOrders()
	fresh := b.good("activate")
	for what, body := range map[string]string{"a good body": fresh.json(), "a body without fields": `{}`, "an unknown plan": fresh.with("plan_id", "NONE").json()} {
		got := b.post(b.me, "activate", later, body)
		if got.Status != http.StatusServiceUnavailable || got.Code != fault.ServiceUnavailable || !strings.Contains(got.Message, "maintenance") || got.Header.Get("Retry-After") != "" {
			t.Errorf("%s under a new key: %d, Retry-After %q, %s; want 503 naming maintenance", what, got.Status, got.Header.Get("Retry-After"), got.Raw)
		}
	}
	b.must("no JSON", b.Send(bizCall(b.me, "activate", later, `{`)), fault.InvalidJSON)
	b.must("a malformed key", b.Send(bizCall(b.me, "activate", "short", fresh.json())), fault.InvalidIdempotencyKey)
	b.must("a known key with another body", b.post(b.me, "activate", done, fresh.json()), fault.IdempotencyKeyReused)
	if got := b.post(b.me, "activate", done, paid.json()); got.Code != fault.OK || got.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a known key: %d %s; want its result", got.Status, got.Raw)
	}
	b.must("a look-up", b.LookUp(b.me, done), fault.OK)
	if after := b.WalletPaise(b.me); after != before || b.ProviderOrders() != orders {
		t.Errorf("the wallet went from %v to %v, the provider's orders from %d to %d", before, after, orders, b.ProviderOrders())
	}
	b.Advance(25 * time.Hour) // its first check comes after a day
	if got := b.AwaitSettled(b.me, review); got.Text("status") != "success" {
		t.Errorf("the operation in review became %s; want success in maintenance, too", got.Raw)
	}
	if err := b.Admin.EndMaintenance(t.Context(), false, ""); err != nil {
		t.Fatal(err)
	}
	b.must("after maintenance", b.post(b.me, "activate", later, fresh.json()), fault.OK)
	if got := b.Metric("coax_maintenance"); got != 0 {
		t.Errorf("coax_maintenance is %v; want 0", got)
	}
	b.CheckAudit()
}
