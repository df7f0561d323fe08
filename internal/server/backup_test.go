package server

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/backup"
)

func portableOf(from Sources) (map[string]string, error) {
	config, err := LoadConfig(from)
	return config.Portable, err
}

// What is of one machine, or secret, stays behind.
func TestPortableSettings_LeavesTheMachineBehind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coax.toml")
	text := `maintenance = true
strict = true
[server]
addr = "0.0.0.0:8443"
trusted_proxies = ["10.0.0.1"]
[store]
url = "postgres://coax:secret@db/coax"
[provider]
name = "headend"
url = "https://headend.example"
token_file = "token"
[review]
max_interval = "1m"
[log]
security_file = "security.log"
[panel]
idle = "30m"
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := portableOf(Sources{File: file, Environ: []string{"COAX_REVIEW_MAX_INTERVAL=2m"}, Sets: []string{"rules.activation_term=plan", "clock.offset=1h"}})
	want := map[string]string{
		"strict": "true", "provider.name": "headend", "provider.url": "https://headend.example", "review.max_interval": "2m", "rules.activation_term": "plan",
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	got, err = portableOf(Sources{File: file, Sets: []string{"provider.url=https://me:secret@headend.example"}})
	if err != nil || got["provider.url"] != "" {
		t.Errorf("an address with a password is recorded: %v, %v", got, err)
	}
}

// No setting is taken over that a restore would have to know about: it is a file, or a part of
// a section that stays behind.
func TestPortableSettings_NoSecretsAndPaths(t *testing.T) {
	for _, s := range Settings {
		got := load(Sources{Sets: []string{s.Key + "=other"}}).config.Portable
		section, _, _ := strings.Cut(s.Key, ".")
		if _, kept := got[s.Key]; kept && (s.path || slices.Contains([]string{"server", "store", "secrets", "maintenance", "clock", "log"}, section)) {
			t.Errorf("%s is taken over", s.Key)
		}
	}
}

func TestTakenOver_SkipsWhatThisReleaseDoesNotTake(t *testing.T) {
	settings, skipped := takenOver(map[string]string{"provider.name": "headend", "provider.speed": "fast", "review.max_interval": "soon", "store.url": "sqlite:/old"})
	if !maps.Equal(settings, map[string]string{"provider.name": "headend"}) || !slices.Equal(skipped, []string{"provider.speed", "review.max_interval", "store.url"}) {
		t.Errorf("took %v, skipped %v", settings, skipped)
	}
}

func TestReadEvents_SkipsWhatIsNone(t *testing.T) {
	since := time.Date(2026, 11, 18, 10, 0, 0, 0, time.UTC)
	event := func(at, event, outcome string) string {
		return `{"time":"2026-11-18T` + at + `Z","level":"INFO","msg":"security","event":"` + event + `","outcome":"` + outcome +
			`","actor":"web:asha","subject":"key 7","operator":3,"change":{"wallet_balance":{"from":"10.00","to":"7.50"},"role":{"from":"viewer","to":""}}}` + "\n"
	}
	log := strings.Join([]string{
		event("09:59:59.999", "key_revoked", "done"),
		event("10:00:00", "key_revoked", "done"),
		event("10:00:01", "signed_in", "done"),
		event("10:00:02", "key_revoked", "refused"),
		`{"time":"2026-11-18T10:00:03Z","msg":"served","path":"\"security\""}` + "\n",
		"not JSON\n" + `{"time":"2026-11-18T10:00:04Z","msg":"security","event":"key_rev` + "\n", // torn
		"Nov 18 10:00:05 host coax[7]: " + event("10:00:05", "password_changed", "done"),
	}, "")
	events, err := readEvents(strings.NewReader(log), since)
	if err != nil || len(events) != 2 {
		t.Fatalf("%d events, %v: %+v", len(events), err, events)
	}
	if got, want := events[0].String(), "key revoked, -2.50, key 7, lco 3, role viewer → none (web:asha)"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	if events[1].Event != "password_changed" {
		t.Errorf("%+v", events[1])
	}
	hostile := ForgottenEvent{Event: "x", Actor: "\x1b[2J"}
	if got := hostile.String(); strings.ContainsRune(got, 0x1b) {
		t.Errorf("%q could control a terminal", got)
	}
}

// A backup made after the clock was set back is the newest one, and stays.
func TestDeleteExpired_KeepsTheFileJustWritten(t *testing.T) {
	folder := t.TempDir()
	write := func(at time.Time) string {
		path := filepath.Join(folder, backup.Name("coax", at, 1))
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := backup.Write(file, backup.Manifest{Store: "ab", TakenAt: at}, nil, func(io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return path
	}
	future := write(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	old := write(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	written := write(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	deleted, err := deleteExpired(written, "coax", "ab", backup.Keep{Days: 1})
	if err != nil || !slices.Equal(deleted, []string{old}) {
		t.Errorf("deleted %q, %v; want %s, and neither %s nor %s", deleted, err, old, written, future)
	}
}
