package server

import (
	"runtime"
	"testing"
)

func TestAddProcessor_EnvironmentWins(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	for _, tt := range []struct {
		name    string
		environ []string
		want    int
	}{
		{"GOMAXPROCS", []string{"GOMAXPROCS=1"}, processors},
		{"unset", []string{"HOME=/root"}, processors + 1},
		{"called twice", nil, processors + 1},
	} {
		AddProcessor(tt.environ)
		if got := runtime.GOMAXPROCS(0); got != tt.want {
			t.Errorf("%s: %d; want %d", tt.name, got, tt.want)
		}
	}
}
