package simulator

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// blockDisk blocks all writes until unblock is called.
func blockDisk(s *Simulator) (unblock func()) {
	s.book.journal.writeLock.Lock()
	return s.book.journal.writeLock.Unlock
}

// waitForWrites waits until this many decisions are in flight.
func waitForWrites(t *testing.T, s *Simulator, decisions int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		s.book.mu.Lock()
		inFlight := len(s.book.inFlight)
		s.book.mu.Unlock()
		if inFlight == decisions {
			return
		}
	}
	t.Fatalf("there were never %d decisions in flight", decisions)
}

// async makes a call in its own goroutine.
func async(question func() reply) <-chan reply {
	answer := make(chan reply, 1)
	go func() { answer <- question() }()
	return answer
}

func TestJournal_BatchesConcurrentWrites(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	s := newSimulator(t, Config{StateFile: file})
	unblock := blockDisk(s)
	const orders = 20
	var answers []<-chan reply
	for i := range orders {
		answers = append(answers, async(func() reply { return renew(s, fmt.Sprint("CX", i), "9812345678") }))
	}
	waitForWrites(t, s, orders)
	s.book.journal.mu.Lock()
	lines := strings.Count(string(s.book.journal.open.text), "\n")
	s.book.journal.mu.Unlock()
	if lines != orders {
		t.Errorf("%d lines are in the next batch; want all %d", lines, orders)
	}
	for _, answer := range answers {
		select {
		case got := <-answer:
			t.Fatalf("answered %+v before it was on disk", got)
		default:
		}
	}
	unblock()
	numbers := map[string]bool{}
	for _, answer := range answers {
		got := <-answer
		got.check(t, 200, `"applied"`)
		_, number, _ := strings.Cut(got.text, "SIM-")
		numbers[number] = true
	}
	if len(numbers) != orders {
		t.Errorf("%d transaction numbers for %d orders", len(numbers), orders)
	}
	_ = s.book.close()
	after := newSimulator(t, Config{StateFile: file})
	if got := len(after.Effects()); got != orders {
		t.Errorf("%d effects after a restart; want %d", got, orders)
	}
	renew(after, "CX-NEXT", "9812345678").check(t, 200, fmt.Sprintf("SIM-%08d", orders+1))
}

func TestJournal_InFlightReferenceIsLocked(t *testing.T) {
	s := newSimulator(t, Config{StateFile: filepath.Join(t.TempDir(), "state")})
	unblock := blockDisk(s)
	order := async(func() reply { return renew(s, "CX1", "9812345678") })
	waitForWrites(t, s, 1)
	void := async(func() reply { return ask(s, "POST", "/v1/void", `{"reference":"CX1"}`) })
	status := async(func() reply { return ask(s, "GET", "/v1/status?reference=CX1", "") })
	again := async(func() reply { return renew(s, "CX1", "9812345678") })
	// Calls are listed before they read the record.
	for deadline := time.Now().Add(10 * time.Second); len(s.Calls("")) < 4; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the calls did not arrive")
		}
	}
	unblock()
	for _, answer := range []<-chan reply{order, void, status, again} {
		(<-answer).check(t, 200, `"applied"`, `"SIM-00000001"`)
	}
	if effects := s.Effects()["CX1"]; effects != 1 {
		t.Errorf("CX1 was carried out %d times", effects)
	}
}

func TestJournal_InFlightVoidStopsOrder(t *testing.T) {
	s := newSimulator(t, Config{StateFile: filepath.Join(t.TempDir(), "state")})
	unblock := blockDisk(s)
	void := async(func() reply { return ask(s, "POST", "/v1/void", `{"reference":"CX1"}`) })
	waitForWrites(t, s, 1)
	order := async(func() reply { return renew(s, "CX1", "9812345678") })
	unblock()
	(<-void).check(t, 200, `"voided"`)
	(<-order).check(t, 200, `"rejected"`)
	if effects := s.Effects(); len(effects) != 0 {
		t.Errorf("effects = %v; want none", effects)
	}
}

func TestJournal_FailedBatchAppliesNothing(t *testing.T) {
	s := newSimulator(t, Config{StateFile: filepath.Join(t.TempDir(), "state")})
	unblock := blockDisk(s)
	var answers []<-chan reply
	for i := range 5 {
		answers = append(answers, async(func() reply { return renew(s, fmt.Sprint("CX", i), "9812345678") }))
	}
	waitForWrites(t, s, len(answers))
	if err := s.book.journal.file.Close(); err != nil {
		t.Fatal(err)
	}
	unblock()
	for i, answer := range answers {
		(<-answer).check(t, 503)
		ask(s, "GET", fmt.Sprint("/v1/status?reference=CX", i), "").check(t, 200, `"unknown_reference"`)
	}
	if effects := s.Effects(); len(effects) != 0 {
		t.Errorf("effects = %v; want none", effects)
	}
}

// A line that no call waits for is written after a write that blocked it.
func TestJournal_WritesUnwaitedLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	s := newSimulator(t, Config{StateFile: file})
	unblock := blockDisk(s)
	order := async(func() reply { return renew(s, "CX1", "9812345678") })
	waitForWrites(t, s, 1)
	ask(s, "GET", "/v1/catalogue", "").check(t, 200)
	unblock()
	(<-order).check(t, 200, `"applied"`)
	again, err := openBook(file) // as after a kill: the first is not closed
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if got := len(again.listCalls("")); got != 2 {
		t.Errorf("%d calls are in the file; want 2", got)
	}
}

func BenchmarkOrders(b *testing.B) {
	for _, kept := range []string{"in a file", "in memory"} {
		b.Run(kept, func(b *testing.B) {
			config := Config{}
			if kept == "in a file" {
				config.StateFile = filepath.Join(b.TempDir(), "state")
			}
			s := newSimulator(b, config)
			b.SetParallelism(32)
			var next atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if got := renew(s, fmt.Sprint("CX", next.Add(1)), "9812345678"); got.code != 200 {
						b.Errorf("got %+v", got)
					}
				}
			})
		})
	}
}
