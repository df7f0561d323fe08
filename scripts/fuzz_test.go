//go:build long

// Package scripts tests the scripts beside it.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fuzzed runs scripts/fuzz on a module of its own, which has the given test file
// and nothing else. The names of its targets are spliced in, so that the script
// does not take this file for one that has them.
func fuzzed(t *testing.T, testFile string) (output, dir string, failed bool) {
	t.Helper()
	script, err := filepath.Abs("fuzz")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.test\n\ngo 1.26\n", "planted.go": "package planted\n", "planted_test.go": testFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), script)
	run.Dir = dir
	run.Env = append(os.Environ(), "FUZZTIME=2000x", "FUZZFRESH=1", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	printed, err := run.CombinedOutput()
	return string(printed), dir, err != nil
}

func TestFuzzScript_FailureKeepsInput(t *testing.T) {
	t.Parallel()
	output, dir, failed := fuzzed(t, `package planted

import "testing"

func `+"FuzzPlanted"+`(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(t *testing.T, text string) {
		if text != "a" {
			t.Error("found it")
		}
	})
}

func `+"FuzzSound"+`(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(*testing.T, string) {})
}
`)
	inputs, _ := filepath.Glob(filepath.Join(dir, "testdata/fuzz/FuzzPlanted/*"))
	if !failed || len(inputs) != 1 {
		t.Errorf("the run failed: %t, and kept %d inputs; want it to fail and keep one\n%s", failed, len(inputs), output)
	}
	for _, want := range []string{"found it", "FuzzPlanted FAILED", "FuzzSound: ", "example.test FuzzPlanted"} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in\n%s", want, output)
		}
	}
}

// Go's fuzzing engine sometimes takes the end of its time for a failure. That is
// tried again; a target that always ends so, or says so itself, fails.
func TestFuzzScript_RetriesOnlyEngineTimeout(t *testing.T) {
	t.Parallel()
	// The mistake is played by a main that prints what the engine prints.
	mistaken := func(times, saying string) string {
		return `package planted

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

func TestMain(m *testing.M) {
	runs, _ := os.ReadFile("runs")
	if slices.Contains(os.Args, "-test.fuzz") && !slices.Contains(os.Args, "-test.fuzzworker") && len(runs) < ` + times + ` {
		os.WriteFile("runs", append(runs, '.'), 0o644)
		fmt.Println("--- FAIL: FuzzSlow (10.02s)\n` + saying + `context deadline exceeded\nFAIL")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func ` + "FuzzSlow" + `(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(*testing.T, string) {})
}
`
	}
	tests := []struct {
		name, times, saying string
		failed              bool
		runs                int
	}{
		{"once", "1", "    ", false, 1},
		{"every time", "9", "    ", true, 3},
		{"in the target's own words", "9", "    planted_test.go:20: ", true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			output, dir, failed := fuzzed(t, mistaken(tt.times, tt.saying))
			runs, _ := os.ReadFile(filepath.Join(dir, "runs"))
			if failed != tt.failed || len(runs) != tt.runs {
				t.Errorf("failed %t after %d such ends; want %t after %d\n%s", failed, len(runs), tt.failed, tt.runs, output)
			}
		})
	}
}
