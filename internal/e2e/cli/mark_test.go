package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// activateWith sends an activation under an idempotency key.
func activateWith(t *testing.T, credentials, key, mobile string) e2e.Result {
	t.Helper()
	return e2e.Run(t, "call", "POST", "/api/v1/activate", "--credentials", credentials, "--idempotency-key", key,
		"--data", `{"full_name":"Asha","mobile":"`+mobile+`","plan_id":"BASIC-1"}`)
}

// putBackStore sells before and after a copy of the store is taken, kills the service and puts
// the copy back. It returns the folder and its credentials.
func putBackStore(t *testing.T) (folder, credentials string) {
	t.Helper()
	e2e.OnlySQLite(t, "the store is copied as a file")
	folder = t.TempDir()
	p, _ := e2e.StartDemo(t, folder)
	credentials = p.Credentials()
	e2e.RequireOK(t, activateWith(t, credentials, "before-the-copy", "9811110001"))
	p.Kill() // leaves a WAL, which is copied with the file
	backup := filepath.Join(t.TempDir(), "data")
	e2e.CopyDir(t, filepath.Join(folder, "data"), backup)

	p, _ = e2e.StartDemo(t, folder)
	e2e.RequireOK(t, activateWith(t, credentials, "after-the-copy", "9811110002"))
	p.Kill()
	if err := os.RemoveAll(filepath.Join(folder, "data")); err != nil {
		t.Fatal(err)
	}
	e2e.CopyDir(t, backup, filepath.Join(folder, "data"))
	return folder, credentials
}

func TestRestoredStore_StartsInMaintenance(t *testing.T) {
	t.Parallel()
	folder, credentials := putBackStore(t)
	p, line := e2e.StartDemo(t, folder)
	h := p.Install(t)

	shown := h.JSON("maintenance", "show")
	e2e.CheckMentions(t, "maintenance show", shown, `"maintenance":true`, `"by":"node:store_mark"`, `"restored_at":"20`, `"restored_since":"20`, `"restored_how":"its mark is `)
	e2e.CheckMentions(t, "the log", p.Err.String(), "THE STORE WAS RESTORED", "coax reconcile", "maintenance mode is on")
	e2e.CheckMentions(t, "the security log", e2e.ReadFile(t, filepath.Join(folder, "security.log")), `"store_restored"`)
	refused := activateWith(t, credentials, "after-the-copy", "9811110002")
	e2e.CheckMentions(t, "a key that the copy does not know", refused.Out+refused.Err, "SERVICE_UNAVAILABLE", "maintenance")
	known := e2e.RequireOK(t, activateWith(t, credentials, "before-the-copy", "9811110001"))
	e2e.CheckMentions(t, "a key that the copy knows", known.Out, `"status": "success"`)
	if status, metrics := e2e.HTTPGet(t, line.InternalURL+"/metrics"); status != http.StatusOK ||
		!strings.Contains(metrics, "\ncoax_store_restored 1\n") || !strings.Contains(metrics, "\ncoax_maintenance 1\n") {
		t.Errorf("/metrics does not say that the store was restored:\n%s", metrics)
	}

	e2e.CheckRefused(t, h.Admin("maintenance", "off"), "restored from an older copy", "coax reconcile", "--accept --reason")
	e2e.CheckRefused(t, h.Admin("maintenance", "off", "--reason", "I want to"), "restored from an older copy")
	e2e.CheckMentions(t, "after a refusal", h.JSON("maintenance", "show"), `"maintenance":true`)
	// It stays, however often the node starts.
	p.Kill()
	p, line = e2e.StartDemo(t, folder)
	h = p.Install(t)
	if again := h.JSON("maintenance", "show"); again != shown {
		t.Errorf("after another start it is\n%s\nand was\n%s", again, shown)
	}
	off := h.JSON("maintenance", "off", "--accept", "--reason", "compared with the provider by hand")
	e2e.CheckMentions(t, "maintenance off", off, `"maintenance":false`, `"restored_at":null`, `"restored_since":null`, `"restored_how":null`)
	e2e.RequireOK(t, activateWith(t, credentials, "after-maintenance", "9811110003"))
	if _, metrics := e2e.HTTPGet(t, line.InternalURL+"/metrics"); !strings.Contains(metrics, "\ncoax_store_restored 0\n") {
		t.Errorf("/metrics still says that the store was restored")
	}
	e2e.CheckMentions(t, "the log of acts", h.JSON("log"), `the store was restored: its mark is`, `"restored_since"`, `compared with the provider by hand`)
	e2e.RequireOK(t, e2e.Run(t, "audit", "--config", filepath.Join(folder, "coax.toml")))

	p.Kill()
	p, _ = e2e.StartDemo(t, folder)
	e2e.CheckMentions(t, "a start after it was accepted", p.Install(t).JSON("maintenance", "show"), `"maintenance":false`)
}

// Copies, migrations and commands before the first start do not hide a restore either.
func TestRestoredStore_NoticedAfterMigrate(t *testing.T) {
	t.Parallel()
	folder, _ := putBackStore(t)
	config := filepath.Join(folder, "coax.toml")
	e2e.RequireOK(t, e2e.Run(t, "migrate", "--config", config))
	e2e.RequireOK(t, e2e.Run(t, "admin", "--config", config, "wallet", "topup", "--lco", "1", "--amount", "5.00", "--reference", "after the restore"))
	p, _ := e2e.StartDemo(t, folder)
	e2e.CheckMentions(t, "maintenance show", p.Install(t).JSON("maintenance", "show"), `"maintenance":true`, `"restored_how":"its mark is `)
}

func TestMarkFile_Missing(t *testing.T) {
	e2e.OnlySQLite(t, "on PostgreSQL a node without a file writes one")
	t.Parallel()
	folder := t.TempDir()
	p, _ := e2e.StartDemo(t, folder)
	p.Kill()
	if err := os.Remove(filepath.Join(folder, "store.mark")); err != nil {
		t.Fatal(err)
	}
	p, _ = e2e.StartDemo(t, folder)
	e2e.CheckMentions(t, "maintenance show", p.Install(t).JSON("maintenance", "show"), `"maintenance":true`, "there is no mark file at")
}

func TestMarkFile_CannotBeWritten(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "file"), "")
	got := h.RunServe("--set", "store.mark_file="+filepath.Join(file, "store.mark"))
	e2e.CheckRefused(t, got, "store.mark_file", file)
}

// A plain kill -9 is never taken for a restore, wherever it hits.
func TestMarkFile_SurvivesKills(t *testing.T) {
	t.Parallel()
	killAndStart(t, 8)
}

// killAndStart kills a demo that sells, and starts it again, a number of times.
func killAndStart(t *testing.T, rounds int) {
	t.Helper()
	folder := t.TempDir()
	for n := range rounds {
		p, _ := e2e.StartDemo(t, folder)
		e2e.CheckMentions(t, fmt.Sprintf("start %d", n), p.Install(t).JSON("maintenance", "show"), `"maintenance":false`)
		e2e.RequireOK(t, e2e.Run(t, "call", "GET", "/api/v1/balance", "--credentials", p.Credentials()))
		p.Kill()
	}
}
