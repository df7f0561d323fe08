package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCertify_ExitStatusAndOutput(t *testing.T) {
	folder := t.TempDir()
	// It answers every order with a failure, whatever it is, and calls nobody.
	lazy := filepath.Join(folder, "lazy.sh")
	script := "while read -r line; do id=${line#*\\\"id\\\":\\\"}; id=${id%%\\\"*}; echo \"{\\\"id\\\":\\\"$id\\\",\\\"outcome\\\":\\\"failed\\\"}\"; done\n"
	if err := os.WriteFile(lazy, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(folder, "report.html")
	tests := []struct {
		name   string
		args   []string
		status int
		out    string
		err    string
	}{
		{"no program", nil, exitUsage, "", "which program?"},
		{"unknown story", []string{"--only", "plian", "--", "true"}, exitUsage, "", `there is no story "plian"`},
		{"program that cannot be started", []string{"--only", "plain", "--", filepath.Join(folder, "none")}, exitUsage, "", "start the program"},
		{"report that cannot be written", []string{"--html", filepath.Join(folder, "no", "such"), "--", "true"}, exitUsage, "", "--html"},
		{"list", []string{"--list"}, exitDone, "lost-answer\n  The order is carried out and charged, and the answer is lost.", ""},
		{"list as JSON", []string{"--list", "--json", "--only", "lost-answer,plain"}, exitDone, `[{"name":"lost-answer","about":"The order is carried out and charged, and the answer is lost.","costs":"`, ""},
		{"page that is no report", []string{"--verify", lazy}, exitUsage, "", "not a report of coax certify"},
		{"page that is not there", []string{"--verify", filepath.Join(folder, "none")}, exitUsage, "", "none"},
		{"program that passes one story", []string{"--only", "other-authority", "--html", page, "--", "sh", lazy}, exitDone, "1 passed, 0 failed", "1/1"},
		{"program that fails one", []string{"--only", "plain,other-authority", "--json", "--", "sh", lazy}, exitRefused, `"fault":"gave up too early"`, "1 of 2 stories failed"},
		{"program that ends at once", []string{"--only", "plain", "--", "false"}, exitRefused, "CRASHED", "1 of 1 stories failed"},
		{"program that prints its orders", []string{"--only", "other-authority", "--", "sh", "-c", "echo ready; tee /dev/stderr | sh " + lazy}, exitRefused, "LEAKED THE SECRET", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			program := &app{out: &out, err: &errs, environ: os.Environ()}
			if got := program.run(t.Context(), append([]string{"certify"}, test.args...)); got != test.status {
				t.Errorf("status %d; want %d\n%s%s", got, test.status, out.String(), errs.String())
			}
			if !strings.Contains(out.String(), test.out) || !strings.Contains(errs.String(), test.err) {
				t.Errorf("printed %q and %q; want %q and %q", out.String(), errs.String(), test.out, test.err)
			}
			if strings.Contains(strings.Join(test.args, " "), "--json") && !strings.Contains(test.name, "list") {
				checkReport(t, out.Bytes())
			}
			if strings.Contains(strings.Join(test.args, " "), page) {
				checkPage(t, page, out.String())
			}
		})
	}
}

// checkReport checks the fields that programs read.
func checkReport(t *testing.T, text []byte) {
	t.Helper()
	var report struct {
		Stories []struct {
			Name        string `json:"name"`
			Passed      bool   `json:"passed"`
			Fault       string `json:"fault"`
			Explanation string `json:"explanation"`
		} `json:"stories"`
		Passed, Failed int
		Digest         string
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	if report.Passed != 1 || report.Failed != 1 || len(report.Stories) != 2 || report.Stories[0].Name != "plain" || report.Stories[0].Passed ||
		report.Stories[0].Explanation == "" || report.Stories[1].Fault != "" || len(report.Digest) != 64 {
		t.Errorf("the report is %+v", report)
	}
}

// checkPage checks the page of a run of one story, that its digest was printed, and that
// --verify finds a change.
func checkPage(t *testing.T, page, printed string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(text, []byte("All 1 stories passed")) {
		t.Errorf("the page is not there or says something else: %v", err)
	}
	_, digest, _ := strings.Cut(printed, "digest ")
	digest = strings.TrimSpace(digest)
	if len(digest) != 64 || !bytes.Contains(text, []byte(digest)) {
		t.Errorf("the page does not have the digest that was printed, %q", digest)
	}
	verify := func(file string, status int, want string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := (&app{out: &out, err: &errs}).run(t.Context(), []string{"certify", "--verify", file}); got != status || !strings.Contains(out.String()+errs.String(), want) {
			t.Errorf("status %d; want %d, and %q\n%s%s", got, status, want, out.String(), errs.String())
		}
	}
	verify(page, exitDone, "That does not prove who wrote it.")
	verify(page, exitDone, digest)
	changed := filepath.Join(t.TempDir(), "changed.html")
	if err := os.WriteFile(changed, bytes.Replace(text, []byte("other-authority"), []byte("plain"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	verify(changed, exitRefused, "the page shows something else than its data")
}

// The first copies wait for each other, so that the run cannot go on with fewer than eight;
// each copy looks whether there are more.
func TestCertify_EightCopiesAtOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	script := fmt.Sprintf(`cd %q
running() { ls | grep -c '^copy-'; }
read -r order; id=${order#*\"id\":\"}; id=${id%%%%\"*}
: > "copy-$$"
until [ -e eight ]; do
	if [ "$(running)" -ge 8 ]; then : > eight; else sleep 0.1; fi
done
if [ "$(running)" -gt 8 ]; then : > more; fi
echo "{\"id\":\"$id\",\"outcome\":\"failed\"}"
while read -r order; do :; done
rm "copy-$$"
`, folder)
	var out, errs bytes.Buffer
	only := strings.Repeat("unknown-plan,", 19) + "unknown-plan" // a failure is right
	if got := (&app{out: &out, err: &errs, environ: os.Environ()}).run(t.Context(), []string{"certify", "--only", only, "--", "sh", "-c", script}); got != exitDone {
		t.Errorf("status %d\n%s%s", got, out.String(), errs.String())
	}
	if _, err := os.Stat(filepath.Join(folder, "eight")); err != nil {
		t.Errorf("there were never eight copies at once: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "more")); err == nil {
		t.Error("more than eight copies ran at once")
	}
}
