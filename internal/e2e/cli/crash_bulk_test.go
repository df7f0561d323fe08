package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/subscription"
)

// newBulkService returns a bulk service in this process, on the store of a node in another.
func newBulkService(t *testing.T, configFile string) *bulk.Service {
	t.Helper()
	config, err := server.LoadConfig(server.Sources{File: configFile, Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := server.OpenStore(t.Context(), config, server.StoreOptions{Tool: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	provider, err := server.OpenProvider(config, func(gateway.Observation) {})
	if err != nil {
		t.Fatal(err)
	}
	now := server.Clock(config.Clock.Offset)
	plans := catalogue.New(store, provider, catalogue.Config{Now: now, Provider: config.Provider.Name, MaxAge: config.Catalogue.MaxAge})
	// It only reads and starts jobs; the node runs them.
	operations := operation.NewProcessor(store, plans, provider, operation.NewBreaker(provider.Probe), operation.Config{
		Now: now, ProviderName: config.Provider.Name, ActivationTerm: subscription.ThirtyDays,
		Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("unused")}, Current: 1},
	})
	return bulk.NewService(store, operations, now)
}

// The process is killed during a bulk renewal, at each failpoint of an operation. The next
// process resumes the job: every charged row is done, and none is charged twice.
func TestBulkRenewal_KillChargesNoRowTwice(t *testing.T) {
	const rows = 10
	for _, point := range []string{"R.before", "R.in", "P.before", "P.after", "S.in", "S.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			provider, err := demo.StartSimulator("127.0.0.1:0", "")
			if err != nil {
				t.Fatal(err)
			}
			defer provider.Stop()
			p := startFailpointDemo(t, folder, provider.URL, point+"=kill@6")
			file, list := "lco,subscriber_id,mobile,name,plan_id,expiry\n", []string{}
			for i := range rows {
				id := fmt.Sprintf("%06d", 500000+i)
				list = append(list, id)
				file += fmt.Sprintf("1,%s,98%08d,Asha,BASIC-1,%s\n", id, i, time.Now().Add(72*time.Hour).Format(time.DateOnly))
			}
			if got := p.Install(t).Admin("subscriber", "import", e2e.WriteCSV(t, file)); got.Code != e2e.ExitDone {
				t.Fatalf("import: %s", got)
			}

			service := newBulkService(t, p.Demo.Config)
			job, err := service.Prepare(t.Context(), bulk.Order{OperatorID: 1, Actor: "web:asha", Kind: operation.Renew, Selections: bulk.SelectSubscribers(list)})
			if err == nil {
				_, err = service.Start(t.Context(), 1, job.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			<-p.Ended

			var sets []string
			if pgtest.Chosen() {
				sets = []string{"clock.offset=20s"} // the killed process's leases have expired
			}
			p = startFailpointDemo(t, folder, provider.URL, "", sets...)
			w := e2e.NewRemoteEnv(t, p)
			w.WaitUntil("every row is settled", func() bool {
				job, err = service.Job(t.Context(), 1, job.ID)
				if err != nil {
					t.Fatal(err)
				}
				return job.State == bulk.Finished && job.Progress.InReview == 0
			})
			// A row killed between reservation and provider call was never sent and is refunded.
			if job.Progress.Done+job.Progress.Refused != rows || job.Progress.Done < rows-4 {
				t.Errorf("it came to %+v", job.Progress)
			}
			if effects := provider.Effects(); len(effects) != job.Progress.Done {
				t.Errorf("the provider carried out %d orders; %d rows are done", len(effects), job.Progress.Done)
			}
			wallet := w.SendNow(e2e.Call{As: w.DemoCaller(), Path: e2e.Balance})
			if want := fmt.Sprint(10_000 - 199*job.Progress.Done); wallet.Text("wallet_balance") != want {
				t.Errorf("the wallet has %s after %d renewals; want %s", wallet.Text("wallet_balance"), job.Progress.Done, want)
			}
			if got := e2e.Run(t, "audit", "--config", p.Demo.Config); got.Code != e2e.ExitDone {
				t.Errorf("audit: %s", got)
			}
			if status := p.Terminate(); status != e2e.ExitDone {
				t.Errorf("it ended with %d", status)
			}
		})
	}
}
