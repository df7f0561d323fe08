package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/server"
)

func TestMaintenance_OnOffShow(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	shape := func(text string) map[string]json.RawMessage {
		t.Helper()
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return got
	}
	is := func(what, text string, want map[string]string) {
		t.Helper()
		got := shape(text)
		for name, value := range want {
			if string(got[name]) != value {
				t.Errorf("%s: %s is %s; want %s", what, name, got[name], value)
			}
		}
	}
	off := map[string]string{"maintenance": "false", "since": "null", "by": "null", "reason": "null", "bulk_jobs_waiting": "[]"}
	is("a new store", h.JSON("maintenance", "show"), off)
	is("off while off", h.JSON("maintenance", "off"), off)
	e2e.CheckUsageError(t, h.Admin("maintenance", "on"), "reason")
	e2e.CheckUsageError(t, h.Admin("maintenance", "off", "--accept"), "--reason")
	h.CheckRefused([]string{"maintenance", "on", "--reason", " "}, "reason")
	is("on", h.JSON("maintenance", "on", "--reason", "restore"), map[string]string{"maintenance": "true", "reason": `"restore"`})
	is("on while on", h.JSON("maintenance", "on", "--reason", "restore, comparing"), map[string]string{"maintenance": "true", "reason": `"restore, comparing"`})
	e2e.CheckMentions(t, "for people", e2e.RequireOK(t, h.Admin("maintenance", "show")).Out, "maintenance        true", "restore, comparing")
	// Showing it needs no master key.
	if err := os.Rename(filepath.Join(h.Folder, "master.key"), filepath.Join(h.Folder, "away.key")); err != nil {
		t.Fatal(err)
	}
	is("without the master key", h.JSON("maintenance", "show"), map[string]string{"maintenance": "true"})
	if err := os.Rename(filepath.Join(h.Folder, "away.key"), filepath.Join(h.Folder, "master.key")); err != nil {
		t.Fatal(err)
	}
	is("off", h.JSON("maintenance", "off", "--accept", "--reason", "compared with the provider"), off)
	entries := h.JSON("log")
	e2e.CheckMentions(t, "the log of acts", entries, `"maintenance on"`, `"maintenance off"`, `compared with the provider`, `"accepted":true`)
	if got := strings.Count(entries, `"maintenance off"`); got != 1 {
		t.Errorf("switching it off is in the log %d times; want once: off while off is no act", got)
	}
}

// A node started with the setting switches maintenance on and logs the reason; a later start
// without the setting leaves it on.
func TestMaintenance_SettingStartsInMaintenance(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p, line := e2e.StartDemo(t, folder, "--set", "maintenance=true")
	e2e.CheckMentions(t, "the log", p.Err.String(), "maintenance mode is on", "setting:maintenance")
	refused := e2e.Run(t, "call", "POST", "/api/v1/activate", "--credentials", p.Credentials(), "--idempotency-key", "maintenance-1", "--data", `{"full_name":"Asha","mobile":"9000000001","plan_id":"BASIC-1"}`)
	e2e.CheckMentions(t, "an activation", refused.Out+refused.Err, "SERVICE_UNAVAILABLE", "maintenance")
	e2e.RequireOK(t, e2e.Run(t, "call", "GET", "/api/v1/balance", "--credentials", p.Credentials()))
	if status, metrics := e2e.HTTPGet(t, line.InternalURL+"/metrics"); status != http.StatusOK || !strings.Contains(metrics, "\ncoax_maintenance 1\n") {
		t.Errorf("/metrics does not say coax_maintenance 1")
	}
	if status := p.Terminate(); status != e2e.ExitDone {
		t.Errorf("it ended with %d", status)
	}
	p, _ = e2e.StartDemo(t, folder, "--set", "maintenance=false")
	h := p.Install(t)
	e2e.CheckMentions(t, "after a start without the setting", h.JSON("maintenance", "show"), `"maintenance":true`, "setting:maintenance")
	e2e.RequireOK(t, h.Admin("maintenance", "off"))
	e2e.RequireOK(t, e2e.Run(t, "call", "POST", "/api/v1/activate", "--credentials", p.Credentials(), "--idempotency-key", "maintenance-1", "--data", `{"full_name":"Asha","mobile":"9000000001","plan_id":"BASIC-1"}`))
}

// restored is a store restored from a copy taken during a bulk renewal.
type restored struct {
	*testing.T
	folder   string
	provider *demo.RunningSimulator
	process  *e2e.Process
	jobID    string
	// mark is the mark file as it was when the store was copied.
	mark []byte
}

const restoredRows = 30

// copied starts a bulk renewal, copies the store in the middle of it, lets it finish and
// restores the copy.
func copied(t *testing.T) *restored {
	t.Helper()
	e2e.OnlySQLite(t, "the store is copied as a file")
	provider, err := demo.StartSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Stop)
	r := &restored{T: t, folder: t.TempDir(), provider: provider}
	// The node is killed during the renewals: a copy of its files is like a backup.
	r.process = startFailpointDemo(t, r.folder, provider.URL, "P.after=kill@14")
	file, list := "lco,subscriber_id,mobile,name,plan_id,expiry\n", []string{}
	for i := range restoredRows {
		id := fmt.Sprintf("%06d", 500000+i)
		list = append(list, id)
		file += fmt.Sprintf("1,%s,98%08d,Asha,BASIC-1,%s\n", id, i, time.Now().Add(72*time.Hour).Format(time.DateOnly))
	}
	if got := r.process.Install(t).Admin("subscriber", "import", e2e.WriteCSV(t, file)); got.Code != e2e.ExitDone {
		t.Fatalf("import: %s", got)
	}
	service := newBulkService(t, r.process.Demo.Config)
	job, err := service.Prepare(t.Context(), bulk.Order{OperatorID: 1, Actor: "web:asha", Title: "march", Kind: operation.Renew, Selections: bulk.SelectSubscribers(list)})
	if err == nil {
		_, err = service.Start(t.Context(), 1, job.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.jobID = job.ID
	<-r.process.Ended
	backup := filepath.Join(t.TempDir(), "data")
	e2e.CopyDir(t, filepath.Join(r.folder, "data"), backup)
	if r.mark, err = os.ReadFile(filepath.Join(r.folder, "store.mark")); err != nil {
		t.Fatal(err)
	}

	r.process = startFailpointDemo(t, r.folder, provider.URL, "")
	e2e.NewRemoteEnv(t, r.process).WaitUntil("the job ends", func() bool { return r.job().State == bulk.Finished })
	if status := r.process.Terminate(); status != e2e.ExitDone {
		t.Fatalf("it ended with %d", status)
	}
	if err := os.RemoveAll(filepath.Join(r.folder, "data")); err != nil {
		t.Fatal(err)
	}
	e2e.CopyDir(t, backup, filepath.Join(r.folder, "data"))
	return r
}

func (r *restored) job() bulk.Job {
	r.Helper()
	return bulkJob(r, r.process.Demo.Config, r.jobID)
}

// bulkJob reads a bulk renewal of the first operator.
func bulkJob(t testing.TB, config, id string) bulk.Job {
	t.Helper()
	loaded, err := server.LoadConfig(server.Sources{File: config, Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := server.OpenStore(t.Context(), loaded, server.StoreOptions{Tool: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	job, found, err := store.BulkJob(t.Context(), 1, id)
	if err != nil || !found {
		t.Fatalf("job %s: %v, %v", id, found, err)
	}
	return job
}

// renewals is how many renewals the provider has carried out.
func (r *restored) renewals() int { return len(r.provider.Effects()) }

// A store is restored in which a bulk renewal runs that has finished since. Started in
// maintenance, the job waits, also after maintenance ends; stopped, nothing is renewed twice.
func TestRestoredStore_BulkJobWaitsForConfirmation(t *testing.T) {
	t.Parallel()
	r := copied(t)
	before := r.renewals()
	r.process = startFailpointDemo(t, r.folder, r.provider.URL, "", "maintenance=true")
	h := r.process.Install(t)
	e2e.CheckMentions(t, "maintenance show", h.JSON("maintenance", "show"), `"maintenance":true`, r.jobID, `"interrupted_by":"maintenance"`)
	e2e.RequireOK(t, h.Admin("maintenance", "off", "--accept", "--reason", "compared with the provider"))
	w := e2e.NewRemoteEnv(t, r.process)
	epoch := r.job().Epoch
	w.WaitUntil("the worker has looked at the job", func() bool { return r.job().Epoch > epoch })
	if job := r.job(); !job.Waits() {
		t.Errorf("after maintenance the job is %+v; want it to wait", job)
	}
	if _, err := newBulkService(t, r.process.Demo.Config).Cancel(t.Context(), 1, r.jobID); err != nil {
		t.Fatal(err)
	}
	w.WaitUntil("the job ends", func() bool { return r.job().State == bulk.Finished })
	if after := r.renewals(); after != before {
		t.Errorf("the provider had carried out %d renewals and has %d now: some were repeated", before, after)
	}
}

// The same without the setting: the node notices that the store was restored.
func TestRestoredStore_NoticedBulkJobWaits(t *testing.T) {
	t.Parallel()
	r := copied(t)
	before := r.renewals()
	r.process = startFailpointDemo(t, r.folder, r.provider.URL, "")
	h := r.process.Install(t)
	e2e.CheckMentions(t, "maintenance show", h.JSON("maintenance", "show"), `"maintenance":true`, r.jobID, `"interrupted_by":"maintenance"`, `"restored_how":"its mark is `)
	w, epoch := e2e.NewRemoteEnv(t, r.process), r.job().Epoch
	w.WaitUntil("the worker has looked at the job", func() bool { return r.job().Epoch > epoch })
	if after := r.renewals(); after != before {
		t.Errorf("the provider had carried out %d renewals and has %d now: some were repeated", before, after)
	}
}

// A machine that was put back as a whole, with its mark file, two hours later.
func TestRestoredStore_BulkJobWaitsAfterLongStop(t *testing.T) {
	t.Parallel()
	r := copied(t)
	if err := os.WriteFile(filepath.Join(r.folder, "store.mark"), r.mark, 0o600); err != nil {
		t.Fatal(err)
	}
	before := r.renewals()
	r.process = startFailpointDemo(t, r.folder, r.provider.URL, "", "clock.offset=2h")
	if job := r.job(); !job.Waits() || job.Interrupted != bulk.ByDowntime {
		t.Errorf("the job is %+v; want it interrupted by the long stop", job)
	}
	if !strings.Contains(r.process.Err.String(), "no node has worked on for more than an hour") {
		t.Errorf("the log does not say so:\n%s", r.process.Err)
	}
	w, epoch := e2e.NewRemoteEnv(t, r.process), r.job().Epoch
	w.WaitUntil("the worker has looked at the job", func() bool { return r.job().Epoch > epoch })
	if after := r.renewals(); after != before {
		t.Errorf("the provider had carried out %d renewals and has %d now: some were repeated", before, after)
	}
}
