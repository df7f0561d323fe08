package simulator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sampleCalls makes calls of every kind.
func sampleCalls(t *testing.T, s *Simulator) {
	t.Helper()
	activation := strings.Replace(orderFor("CX1", "9812345678", "TV-FAMILY"), "{", `{"name":"A","password":"hunter2",`, 1)
	ask(s, "POST", "/v1/activate", activation).check(t, 200, `"applied"`)
	renew(s, "CX2", "9000011111").check(t, 200, `"rejected"`)
	ask(s, "POST", "/v1/void", `{"reference":"CX3","mobile":"9812345678"}`).check(t, 200, `"voided"`)
	renew(s, "CX4", "9000041111").check(t, 503)
	if got := renew(s, "CX5", "9000091111"); !got.dropped {
		t.Errorf("got %+v; want no answer", got)
	}
	ask(s, "GET", "/v1/status?reference=CX1", "").check(t, 200, `"applied"`)
}

func TestState_SurvivesRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	before := newSimulator(t, Config{StateFile: file})
	sampleCalls(t, before)
	if err := before.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	after := newSimulator(t, Config{StateFile: file})

	if got, want := after.Effects(), before.Effects(); !reflect.DeepEqual(got, want) || len(got) != 2 {
		t.Errorf("effects after a restart = %v; want %v", got, want)
	}
	if got, want := after.Calls(""), before.Calls(""); !reflect.DeepEqual(got, want) || len(got) != 6 {
		t.Errorf("calls after a restart = %v; want %v", got, want)
	}
	for reference, want := range map[string]string{
		"CX1": `"SIM-00000001"`, "CX2": `"rejected"`, "CX3": `"voided"`, "CX4": `"unknown_reference"`, "CX5": `"SIM-00000002"`,
	} {
		ask(after, "GET", "/v1/status?reference="+reference, "").check(t, 200, want)
	}
	renew(after, "CX3", "9812345678").check(t, 200, `"rejected"`)
	renew(after, "CX5", "9000091111").check(t, 200, `"SIM-00000002"`)
	renew(after, "CX6", "9812345678").check(t, 200, `"SIM-00000003"`)

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Error("the password is in the state file")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state file is %v, %v; want it readable by its owner alone", info.Mode(), err)
	}
}

func TestUnknowable_SurvivesRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	s, url := start(t, Config{StateFile: file})
	ended := startHeldCalls(t, s, url)
	_ = s.Shutdown(context.Background())
	for range 4 {
		<-ended
	}
	after := newSimulator(t, Config{StateFile: file})
	ask(after, "GET", "/v1/status?reference=CX8", "").check(t, 503)
	ask(after, "POST", "/v1/void", `{"reference":"CX8"}`).check(t, 503)
	ask(after, "GET", "/v1/status?reference=CX2", "").check(t, 200, `"applied"`)
	// An order that was pending at the restart was not carried out.
	ask(after, "GET", "/v1/status?reference=CX7", "").check(t, 200, `"unknown_reference"`)
}

// A killed simulator may leave a file that ends with an incomplete line. All calls
// that it answered are complete lines.
func TestStateFile_TruncatedAnywhere(t *testing.T) {
	folder := t.TempDir()
	whole := filepath.Join(folder, "whole")
	s := newSimulator(t, Config{StateFile: whole})
	sampleCalls(t, s)
	_ = s.Shutdown(context.Background())
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(text); cut += 7 {
		file := filepath.Join(folder, fmt.Sprint("cut", cut))
		if err := os.WriteFile(file, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := New(Config{StateFile: file})
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
		if got, lines := len(again.Calls("")), strings.Count(string(text[:cut]), "\n"); got != lines {
			t.Errorf("cut after %d bytes: %d calls of %d lines", cut, got, lines)
		}
		renew(again, "CX9", "9812345678").check(t, 200, `"applied"`)
		_ = again.Shutdown(context.Background())
		once := newSimulator(t, Config{StateFile: file})
		if once.Effects()["CX9"] != 1 {
			t.Errorf("cut after %d bytes: a later order is lost", cut)
		}
		_ = once.Shutdown(context.Background())
	}
}

func TestNew_InvalidStateFile(t *testing.T) {
	folder := t.TempDir()
	malformed := filepath.Join(folder, "malformed")
	if err := os.WriteFile(malformed, []byte("{}\nnonsense\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		malformed:                          "line 2",
		folder:                             "simulator's state",
		filepath.Join(folder, "no", "way"): "simulator's state",
	} {
		if _, err := New(Config{StateFile: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New with %s = %v; want an error that says %q", path, err, want)
		}
	}
}

func TestOrder_WriteErrorIs503(t *testing.T) {
	s := newSimulator(t, Config{StateFile: filepath.Join(t.TempDir(), "state")})
	renew(s, "CX1", "9812345678").check(t, 200, `"applied"`)
	if err := s.book.journal.file.Close(); err != nil {
		t.Fatal(err)
	}
	renew(s, "CX2", "9812345678").check(t, 503)
	renew(s, "CX3", "9000011111").check(t, 503)
	ask(s, "POST", "/v1/void", `{"reference":"CX4"}`).check(t, 503)
	ask(s, "GET", "/v1/status?reference=CX2", "").check(t, 200, `"unknown_reference"`)
	ask(s, "GET", "/v1/status?reference=CX1", "").check(t, 200, `"applied"`)
	if effects := s.Effects(); len(effects) != 1 {
		t.Errorf("effects = %v; want CX1 alone", effects)
	}
}
