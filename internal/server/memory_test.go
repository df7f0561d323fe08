package server

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestMemorySettings_EnvironmentWins(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetGCPercent(percent)
	defer debug.SetMemoryLimit(limit)
	for _, tt := range []struct {
		name    string
		environ []string
		percent int
		limited bool
	}{
		{"unset", []string{"HOME=/root"}, gcPercent, true},
		{"empty", []string{"GOGC=", "GOMEMLIMIT="}, gcPercent, true},
		{"GOGC", []string{"GOGC=100"}, 100, true},
		{"GOMEMLIMIT", []string{"GOMEMLIMIT=off"}, gcPercent, false},
		{"both", []string{"GOMEMLIMIT=1GiB", "GOGC=off"}, 100, false},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		SetGCPercent(tt.environ)
		SetMemoryLimit(tt.environ)
		limited := debug.SetMemoryLimit(-1) != math.MaxInt64
		if got := debug.SetGCPercent(100); got != tt.percent || limited != tt.limited {
			t.Errorf("%s: %d per cent, limited %v; want %d, %v", tt.name, got, limited, tt.percent, tt.limited)
		}
	}
}

func TestMemoryLimit_HalfOfASmallContainer(t *testing.T) {
	for container, want := range map[string]int64{
		"": memoryLimit, "max\n": memoryLimit, "134217728\n": 64 << 20, "8589934592\n": memoryLimit, "0": memoryLimit, "rubbish": memoryLimit,
	} {
		if got := memoryLimitIn(container); got != want {
			t.Errorf("in a container of %q the limit is %d; want %d", container, got, want)
		}
	}
}
