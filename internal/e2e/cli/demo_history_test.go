package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// cliCheckHistory checks that a running demo's history is complete, and returns its counts.
func cliCheckHistory(t testing.TB, folder string) string {
	t.Helper()
	got := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "balance", "--credentials", filepath.Join(folder, "demo.json")))
	e2e.CheckMentions(t, "the balance", got.Out, `"wallet_balance": 10000.00`)
	proved := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", filepath.Join(folder, "coax.toml")))
	e2e.CheckMentions(t, "the audit", proved.Out, "Everything agrees.", "0 processing, 3 needs_review")
	db := e2e.OpenReadOnly(t, e2e.LoadStoreConfig(t, filepath.Join(folder, "coax.toml")))
	var counts []string
	for _, table := range []string{"operators", "operations", "wallet_entries", "ledger", "commissions", "subscribers", "cycles", "credentials", "staff_acts", "exceptions"} {
		counts = append(counts, table+" "+e2e.QueryRows(t, db, "SELECT count(*) FROM "+table)[0])
	}
	return strings.Join(counts, ", ")
}

func TestDemoHistory_SurvivesRestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, _ := e2e.StartDemo(t, folder, "--history")
	e2e.CheckMentions(t, "the progress", s.Err.String(), "Making up a history: day 91 of 91")
	if n := strings.Count(s.Out.String(), "\n"); n != 1 {
		t.Errorf("%d lines on stdout; want the one:\n%s", n, s.Out)
	}
	h := e2e.InstallAt(t, folder)
	if n := len(e2e.JSONArray(t, h.JSON("review", "list"))); n != 3 {
		t.Errorf("%d operations are in review; want 3", n)
	}
	if n := len(e2e.JSONArray(t, h.JSON("key", "list", "--lco", "2"))); n != 0 {
		t.Errorf("the second operator has %d keys; want none", n)
	}
	made := cliCheckHistory(t, folder)
	if code := s.Terminate(); code != e2e.ExitDone {
		t.Errorf("the demo ended with %d\n%s", code, s.Err)
	}
	for _, flags := range [][]string{{"--history"}, nil} {
		again, _ := e2e.StartDemo(t, folder, flags...)
		if text := again.Err.String(); strings.Contains(text, "history") {
			t.Errorf("a later start with %q says:\n%s", flags, text)
		}
		if found := cliCheckHistory(t, folder); found != made {
			t.Errorf("a later start with %q found %s; want %s", flags, found, made)
		}
		if code := again.Terminate(); code != e2e.ExitDone {
			t.Errorf("the demo ended with %d\n%s", code, again.Err)
		}
	}
}

// A history interrupted by a kill is completed by the next start, even without --history.
func TestDemoHistory_KilledWhileFilling(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "demo")
	e2e.UseEmptyStore(t, folder)
	for _, moment := range []string{"day 15 of", "day 60 of", "day 90 of"} {
		victim := e2e.Launch(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json", "--history")
		t.Cleanup(victim.Kill)
		if !victim.Err.WaitFor(moment, victim.Ended) {
			t.Fatalf("%s did not come:\n%s", moment, victim.Err)
		}
		victim.Kill()
	}
	s, _ := e2e.StartDemo(t, folder)
	cliCheckHistory(t, folder)
	if code := s.Terminate(); code != e2e.ExitDone {
		t.Errorf("the demo ended with %d\n%s", code, s.Err)
	}
}

func TestDemoHistory_NotAddedLater(t *testing.T) {
	t.Parallel()
	folder := e2e.NewInstall(t).Folder
	s, _ := e2e.StartDemo(t, folder, "--history")
	e2e.CheckMentions(t, "the demo", s.Err.String(), "was created without a history and stays as it is")
	if code := s.Terminate(); code != e2e.ExitDone {
		t.Errorf("the demo ended with %d\n%s", code, s.Err)
	}
	cliCheckStarts(t, folder)
}

func TestDemoHistory_NotWithForeignProvider(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "demo")
	e2e.UseEmptyStore(t, folder)
	got := e2e.Run(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--history", "--set", "provider.url=http://127.0.0.1:1")
	e2e.CheckRefused(t, got, "provider.url", "--history")
}
