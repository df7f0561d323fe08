package server

import (
	"runtime"
	"testing"
)

func TestANodeOnSQLiteHasAProcessorMoreUnlessItsEnvironmentDecides(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	for _, tt := range []struct {
		name    string
		environ []string
		want    int
	}{
		{"GOMAXPROCS", []string{"GOMAXPROCS=1"}, processors},
		{"nothing said", []string{"HOME=/root"}, processors + 1},
		{"said twice", nil, processors + 1},
	} {
		WaitBesideWork(tt.environ)
		if got := runtime.GOMAXPROCS(0); got != tt.want {
			t.Errorf("%s: %d; want %d", tt.name, got, tt.want)
		}
	}
}
