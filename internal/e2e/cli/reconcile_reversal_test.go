package cli

import (
	"encoding/json"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/server"
)

// requestReversal has staff ask for the reversal of a transaction, as the console does.
func requestReversal(t *testing.T, configFile, transaction string) {
	t.Helper()
	config, err := server.LoadConfig(server.Sources{File: configFile, Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := server.OpenStore(t.Context(), config, server.StoreOptions{Tool: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	vault, err := server.OpenVault(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := server.Clock(config.Clock.Offset)
	if _, _, err := server.UnlockStore(t.Context(), store, vault, now()); err != nil {
		t.Fatal(err)
	}
	service := admin.NewService(store, vault, "cli:test", now)
	if _, err := service.SubmitReversal(t.Context(), transaction, "wrong customer"); err != nil {
		t.Fatal(err)
	}
}

// A store is restored from a backup that lacks two reversals: of a renewal that it has, and of one that
// it lacks, too. The one is carried out under the provider's reference, so that everything goes back as
// it did, and the other is not adopted.
func TestReconcile_ReversalsSinceBackup(t *testing.T) {
	t.Parallel()
	provider, err := demo.StartSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Stop)
	folder := t.TempDir()
	sets := []string{"--set", "provider.url=" + provider.URL, "--set", "review.first_check=1s", "--set", "provider.timeout=5s", "--set", "review.refund_after=5s"}
	p, info := e2e.StartDemo(t, folder, sets...)
	w := e2e.NewRemoteEnv(t, p)
	me := w.DemoCaller()
	order := func(endpoint, key string, body e2e.Order) (transaction string) {
		t.Helper()
		got := w.SendNow(e2e.Call{As: me, Method: "POST", Path: "/api/v1/" + endpoint, Body: body.JSON(), Header: map[string][]string{"Idempotency-Key": {key}}})
		if got.Code != fault.OK {
			t.Fatalf("%s: %s", endpoint, got.Raw)
		}
		return got.Text("transaction_id")
	}
	renew := func(key, mobile, plan string) (transaction string) {
		t.Helper()
		return order("renew", key, e2e.Order{"mobile": mobile, "plan_id": plan})
	}
	const wrong, other = "9811111101", "9811111102"
	order("activate", "activate-1", e2e.Order{"full_name": "Asha", "mobile": wrong, "plan_id": "BASIC-1"})
	order("activate", "activate-2", e2e.Order{"full_name": "Binu", "mobile": other, "plan_id": "BASIC-1"})
	known := renew("by-mistake", wrong, "COMBO-1")
	p.Terminate()
	restore := saveStore(t, folder, info.Config)

	p, _ = e2e.StartDemo(t, folder, sets...)
	w, h := e2e.NewRemoteEnv(t, p), p.Install(t)
	wallet := func() string { return h.JSON("wallet", "show", "--lco", "1") }
	reverse := func(transaction string) {
		t.Helper()
		before := wallet()
		requestReversal(t, info.Config, transaction)
		w.WaitUntil("the money is back", func() bool { return wallet() != before })
	}
	reverse(known)
	forgotten := renew("forgotten", other, "FAMILY-1")
	reverse(forgotten)
	right := renew("right-one", wrong, "BASIC-1")
	before := wallet()
	p.Terminate()

	sets = append(sets, restore()...)
	p, _ = e2e.StartDemo(t, folder, sets...)
	w = e2e.NewRemoteEnv(t, p)
	e2e.CheckRefused(t, h.Admin("maintenance", "off"), "differences")
	printed := e2e.Run(t, "reconcile", "--config", info.Config)
	e2e.CheckMentions(t, "the comparison", printed.Out, forgotten+": the provider carried it out, and undid it as RV", "and it is not reversed here", "--adopt --only "+known)
	found := reconciled(t, info.Config)
	if len(found) != 2 || found[0].TransactionID != known || found[0].Kind != "differs" || !found[0].Adoptable || found[1].TransactionID != right || found[1].Adoptable {
		t.Fatalf("found %+v; want the reversal of %s, and %s, which waits for it", found, known, right)
	}
	if left := reconciled(t, info.Config, "--adopt", "--reason", "the backup was restored"); !left[0].Adopted || left[1].Adopted {
		t.Errorf("adopted %+v; want the reversal alone", left)
	}
	w.WaitUntil("the reversal is carried out", func() bool {
		found = reconciled(t, info.Config)
		return len(found) == 1 && found[0].TransactionID == right && found[0].Plan != nil && *found[0].Plan == "BASIC-1" && found[0].Adoptable
	})
	reconciled(t, info.Config, "--adopt", "--reason", "the backup was restored", "--lco", "1")
	if left := reconciled(t, info.Config); len(left) != 0 {
		t.Fatalf("afterwards there are differences: %+v", left)
	}
	if now := wallet(); now != before {
		t.Errorf("the wallet has %s; before the restore it had %s", now, before)
	}
	requireComparedOff(t, h.Admin("maintenance", "off"))
	var reversals []struct {
		Transaction string `json:"transaction_id"`
		Status      string `json:"status"`
	}
	if err := json.Unmarshal([]byte(h.JSON("reversal", "list", "--all")), &reversals); err != nil || len(reversals) != 1 || reversals[0].Transaction != known || reversals[0].Status != "reversed" {
		t.Errorf("the reversals are %+v, %v; want that of %s", reversals, err, known)
	}
	proved := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", info.Config))
	e2e.CheckMentions(t, "the audit", proved.Out, "Everything agrees.")
}
