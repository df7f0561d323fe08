//go:build long

package durability

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/store/sqlite"
)

// A service and its clients run in a separate process under strace, and the system
// calls are read in the kernel's order: before an order is sent to the provider, and
// before an answer is sent to the client, everything written to the log has been synced.
// And before a page is written to a restarted log, the log's header has been synced:
// otherwise old pages would be taken for the whole log.
func TestAnswers_OnlyAfterSync(t *testing.T) {
	if folder := os.Getenv("COAX_TEST_TRACED"); folder != "" {
		serveTraced(t, folder)
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is missing; make test installs it")
		}
		t.Skip("strace is not installed")
	}
	folder := t.TempDir()
	report := filepath.Join(folder, "calls")
	traced := exec.Command(strace, "-f", "-qq", "-yy", "-s", "40", "-e", "trace=write,pwrite64,pwritev,fsync,fdatasync", "-e", "signal=none",
		"-o", report, os.Args[0], "-test.run=^"+t.Name()+"$")
	traced.Env = append(os.Environ(), "COAX_TEST_TRACED="+folder)
	if out, err := traced.CombinedOutput(); err != nil {
		t.Fatalf("under strace: %v\n%s", err, out)
	}
	calls, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := os.ReadFile(filepath.Join(folder, "ports"))
	if err != nil {
		t.Fatal(err)
	}
	harness, provider, _ := strings.Cut(string(ports), " ")

	seen := readTrace(string(calls), harness, provider)
	t.Logf("%d answers and %d orders, after %d syncs of the log", seen.answers, seen.orders, seen.syncs)
	for _, wrong := range seen.wrong {
		t.Error(wrong)
	}
	if want := wanted(t, "COAX_TEST_ANSWERS", size(30, 10)); seen.answers != want || seen.orders != want {
		t.Errorf("%d answers and %d orders were seen; want %d of each", seen.answers, seen.orders, want)
	}

	// The check detects a service that does not sync, or syncs too late.
	if lax := readTrace(without(string(calls), -1), harness, provider); len(lax.wrong) < lax.answers {
		t.Errorf("without any sync %d of %d answers were reported", len(lax.wrong), lax.answers)
	}
	if lax := readTrace(without(string(calls), seen.syncs/2), harness, provider); len(lax.wrong) == 0 {
		t.Error("that one sync in the middle is missing was not noticed")
	}
	if seen.begun == 0 {
		t.Error("the log was never started")
	}
	if lax := readTrace(without(string(calls), 1), harness, provider); len(lax.wrong) == 0 {
		t.Error("a log header without a sync was not noticed")
	}
}

// serveTraced serves one client, so that every write to the log belongs to the next
// answer.
func serveTraced(t *testing.T, folder string) {
	s := newSite(t)
	h := s.open(t, filepath.Join(folder, "coax.db"), sqlite.Options{})
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	if err := os.WriteFile(filepath.Join(folder, "ports"), []byte(port(h.address)+" "+port(s.providerURL)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range wanted(t, "COAX_TEST_ANSWERS", size(30, 10)) {
		got := h.send("POST", "activate", fmt.Sprintf("traced-%d", i), map[string]string{
			"full_name": "Asha Rao", "mobile": fmt.Sprintf("98%08d", i), "plan_id": "BASIC-1",
		})
		if got.Code != "OK" {
			t.Fatalf("answer %d: %s", i, got.text)
		}
	}
}

// traceSeen is what readTrace finds.
type traceSeen struct {
	answers, orders, syncs int
	begun                  int // how often the log was begun
	wrong                  []string
}

// readTrace reads the system calls of a process in order. An interrupted call is listed
// twice, where it began and where it ended.
func readTrace(calls, servicePort, providerPort string) (seen traceSeen) {
	answering, ordering := "TCP:[127.0.0.1:"+servicePort+"->", "->127.0.0.1:"+providerPort+"]"
	written, synced := 0, 0         // writes to the log, and how many of them are on the disk
	syncing := map[string]int{}     // by thread: how many there were when its sync began
	syncsSince, syncsNeeded := 0, 0 // since the last answer or order
	beginning := 0                  // the write that was the log's beginning
	checkSynced := func(what, line string) {
		if written > synced {
			seen.wrong = append(seen.wrong, fmt.Sprintf("%s left while %d writes to the log were not synced: %s", what, written-synced, line))
		} else if syncsSince < syncsNeeded {
			seen.wrong = append(seen.wrong, fmt.Sprintf("%s left after %d syncs; want %d: %s", what, syncsSince, syncsNeeded, line))
		}
		syncsSince = 0
	}
	for lines := bufio.NewScanner(strings.NewReader(calls)); lines.Scan(); {
		thread, line, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		line = strings.TrimSpace(line)
		toLog := strings.Contains(line, "coax.db-wal>")
		resumed := strings.HasPrefix(line, "<... f") && strings.Contains(line, "sync resumed>")
		switch {
		case toLog && (strings.HasPrefix(line, "pwrite") || strings.HasPrefix(line, "write")):
			if beginning > synced {
				seen.wrong = append(seen.wrong, "a page was written to a log whose beginning was not synced: "+line)
			}
			if written++; strings.HasSuffix(line, fmt.Sprintf(", %d, 0) = %[1]d", logHeader)) {
				beginning = written
				seen.begun++
			}
		case toLog && strings.Contains(line, "sync(") && strings.HasSuffix(line, "= 0"):
			synced = written
			seen.syncs++
			syncsSince++
		case toLog && strings.Contains(line, "sync("):
			syncing[thread] = written
		case resumed && strings.HasSuffix(line, "= 0"):
			if until, ours := syncing[thread]; ours {
				synced = max(synced, until)
				seen.syncs++
				syncsSince++
			}
			delete(syncing, thread)
		case strings.HasPrefix(line, "write(") && strings.Contains(line, ordering) && strings.Contains(line, `"POST /v1/`):
			syncsNeeded = 2 // the admission, and the reservation
			checkSynced("an order", line)
			seen.orders++
		case strings.HasPrefix(line, "write(") && strings.Contains(line, answering) && strings.Contains(line, `"HTTP/1.1 `):
			syncsNeeded = 1 // the settlement
			checkSynced("an answer", line)
			seen.answers++
		}
	}
	return seen
}

// without returns a trace without one sync of the log, or without any if n is -1.
func without(calls string, n int) string {
	var kept strings.Builder
	at := 0
	for line := range strings.Lines(calls) {
		if strings.Contains(line, "sync(") && strings.Contains(line, "coax.db-wal>") {
			if at++; n < 0 || at == n {
				continue
			}
		}
		kept.WriteString(line)
	}
	return kept.String()
}
