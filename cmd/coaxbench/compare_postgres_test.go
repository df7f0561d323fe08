package main

import (
	"testing"
)

func TestClusterSettings_QuarterOfMemory(t *testing.T) {
	for memory, want := range map[int64]string{
		0:      "shared_buffers=256MB", // a system that does not tell
		512:    "shared_buffers=256MB",
		8_000:  "shared_buffers=2000MB",
		24_103: "shared_buffers=4096MB",
	} {
		if got := clusterSettings(memory)[0]; got != want {
			t.Errorf("with %d MB: %s; want %s", memory, got, want)
		}
	}
}
