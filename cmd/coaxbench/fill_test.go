package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/e2e"
)

func TestFill_MakesASoundStoreOnce(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "cache")
	fill := func() (view filledView) {
		got := run(t, "fill", "--operations", "1000", "--cache", cache, "--json")
		if err := json.Unmarshal([]byte(got.Out), &view); err != nil || got.Code != e2e.ExitDone {
			t.Fatalf("%v; %s", err, got)
		}
		return view
	}
	first := fill()
	if first.Reused || first.Operations < 1000 || first.Operators < 1 || first.BytesPerOperation < 500 {
		t.Errorf("%+v; want a new store of 1000 operations", first)
	}
	if again := fill(); !again.Reused || again.Folder != first.Folder {
		t.Errorf("%+v; want the same again", again)
	}
	text := run(t, "fill", "--operations", "1000", "--cache", cache)
	e2e.CheckMentions(t, "the second time", text.Out, first.Folder+" was there already: ", " subscribers of 50 operators; ", " bytes for each operation\n")

	house := t.TempDir()
	if got := e2e.Run(t, "init", "--dir", house); got.Code != e2e.ExitDone {
		t.Fatal(got)
	}
	audited := e2e.Run(t, "audit", "--config", filepath.Join(house, "coax.toml"), "--set", "store.url=sqlite:"+filepath.Join(first.Folder, "coax.db"),
		"--set", "secrets.master_key_file="+filepath.Join(first.Folder, "master.key"))
	if audited.Code != e2e.ExitDone || !strings.Contains(audited.Out, "Everything agrees.") {
		t.Errorf("the audit of a filled store: %s", audited)
	}
}

func TestFill_Usage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--store", "oracle"}, `--store "oracle": write sqlite or postgres`},
		{[]string{"--operations", "0"}, "--operations 0: write a number of 1 to 1000000000"},
		{[]string{"ten"}, `unknown command "ten" for "coaxbench fill"`},
	} {
		if got := run(t, append([]string{"fill", "--cache", t.TempDir()}, tt.flags...)...); got.Code != e2e.ExitUsage || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%v: want exit 2 and %q; %s", tt.flags, tt.want, got)
		}
	}
	got := run(t, "fill", "--operations", "1000000000", "--cache", t.TempDir())
	if got.Code != e2e.ExitRefused || !strings.Contains(got.Err, "GB of free space, and the disk of ") {
		t.Errorf("more than the disk has room for: want exit 1 and how much; %s", got)
	}
}

func TestFill_Progress(t *testing.T) {
	steps := []growth.Progress{
		{Step: "operators", Total: 1000},
		{Step: "operations", Done: 10, Total: 1000, Elapsed: 3 * time.Second},
		{Step: "operations", Done: 20, Total: 1000, Elapsed: 4 * time.Second},
		{Step: "operations", Done: 250, Total: 1000, Elapsed: 20 * time.Second, Left: time.Minute},
	}
	for _, tt := range []struct {
		name     string
		terminal bool
		want     string
	}{
		{"where every line stays", false, "  0 %  0s so far: operators\n  1 %  3s so far: operations\n 25 %  20s so far, about 1m0s to go: operations\n"},
		{"on a terminal", true, "\r\x1b[K  0 %  0s so far: operators\r\x1b[K  1 %  3s so far: operations\r\x1b[K  2 %  4s so far: operations" +
			"\r\x1b[K 25 %  20s so far, about 1m0s to go: operations\r\x1b[K"},
	} {
		var said strings.Builder
		tell, end := fillProgress(&said, tt.terminal)
		for _, p := range steps {
			tell(p)
		}
		end()
		if said.String() != tt.want {
			t.Errorf("%s: %q; want %q", tt.name, said.String(), tt.want)
		}
	}
}
