package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// cliWholeHistory demands of a demo that runs that its history is all there, and
// returns what its store counts.
func cliWholeHistory(t testing.TB, folder string) string {
	t.Helper()
	got := cliOK(t, cliRun(t, "call", "GET", "balance", "--credentials", filepath.Join(folder, "demo.json")))
	cliSays(t, "the balance", got.out, `"wallet_balance": 10000.00`)
	proved := cliOK(t, cliRun(t, "audit", "--config", filepath.Join(folder, "coax.toml")))
	cliSays(t, "the audit", proved.out, "Everything agrees.", "0 processing, 3 needs_review")
	db := peekStore(t, storeAt(t, filepath.Join(folder, "coax.toml")))
	var counts []string
	for _, table := range []string{"operators", "operations", "wallet_entries", "ledger", "commissions", "subscribers", "cycles", "credentials", "staff_acts", "exceptions"} {
		counts = append(counts, table+" "+cliRows(t, db, "SELECT count(*) FROM "+table)[0])
	}
	return strings.Join(counts, ", ")
}

func TestCLIDemoWithAHistoryFindsItAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, _ := cliDemoIn(t, folder, "--history")
	cliSays(t, "the progress", s.err.String(), "Making up a history: day 91 of 91")
	if n := strings.Count(s.out.String(), "\n"); n != 1 {
		t.Errorf("%d lines on stdout; want the one:\n%s", n, s.out)
	}
	h := cliHouseAt(t, folder)
	if n := len(cliArray(t, h.json("review", "list"))); n != 3 {
		t.Errorf("%d operations are in review; want 3", n)
	}
	if n := len(cliArray(t, h.json("key", "list", "--lco", "2"))); n != 0 {
		t.Errorf("the second operator has %d keys; want none", n)
	}
	made := cliWholeHistory(t, folder)
	if code := s.Stop(); code != exitDone {
		t.Errorf("the demo ended with %d\n%s", code, s.err)
	}
	for _, flags := range [][]string{{"--history"}, nil} {
		again, _ := cliDemoIn(t, folder, flags...)
		if text := again.err.String(); strings.Contains(text, "history") {
			t.Errorf("a later start with %q says:\n%s", flags, text)
		}
		if found := cliWholeHistory(t, folder); found != made {
			t.Errorf("a later start with %q found %s; want %s", flags, found, made)
		}
		if code := again.Stop(); code != exitDone {
			t.Errorf("the demo ended with %d\n%s", code, again.err)
		}
	}
}

// A history that a kill cut short is ended by the next start, be it one that asks
// for none.
func TestCLIDemoSurvivesBeingKilledInItsHistory(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "demo")
	cliEmptyStore(t, folder)
	for _, moment := range []string{"day 15 of", "day 60 of", "day 90 of"} {
		victim := cliLaunch(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json", "--history")
		t.Cleanup(victim.Kill)
		if !victim.err.until(moment, victim.ended) {
			t.Fatalf("%s did not come:\n%s", moment, victim.err)
		}
		victim.Kill()
	}
	s, _ := cliDemoIn(t, folder)
	cliWholeHistory(t, folder)
	if code := s.Stop(); code != exitDone {
		t.Errorf("the demo ended with %d\n%s", code, s.err)
	}
}

func TestCLIDemoThatBeganWithoutAHistoryGetsNone(t *testing.T) {
	t.Parallel()
	folder := cliNewHouse(t).folder
	s, _ := cliDemoIn(t, folder, "--history")
	cliSays(t, "the demo", s.err.String(), "was begun without a history and stays as it is")
	if code := s.Stop(); code != exitDone {
		t.Errorf("the demo ended with %d\n%s", code, s.err)
	}
	cliComesUpWhole(t, folder)
}

func TestCLIDemoMakesNoHistoryWithSomebodyElsesProvider(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "demo")
	cliEmptyStore(t, folder)
	got := cliRun(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--history", "--set", "provider.url=http://127.0.0.1:1")
	cliRefusal(t, got, "provider.url", "--history")
}
