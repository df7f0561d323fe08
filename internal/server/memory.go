package server

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

const (
	// gcPercent: what a node keeps in memory is a few megabytes, and at Go's own
	// 100 they were gone through six times a second under load. At 400 that is
	// once or twice, for some 40 MB more at the peak; beyond it little is left to
	// win.
	gcPercent = 400
	// memoryLimit bounds what that may cost where there is more to keep: above
	// it Go collects as often as it must, rather than let five times as much
	// lie about. What SQLite takes is not part of it.
	memoryLimit = 144 << 20
)

// cgroupMemory is where Linux says how much memory a container may have.
const cgroupMemory = "/sys/fs/cgroup/memory.max"

// CollectLess sets how much memory a process trades for time. Whoever has set
// GOGC has decided themselves, and so it is with GOMEMLIMIT below.
func CollectLess(environ []string) {
	if !isSet(environ, "GOGC") {
		debug.SetGCPercent(gcPercent)
	}
}

// LimitMemory is for a node whose memory is bounded by its own limits (4,096
// connections take 60 MB, 100,000 addresses that fail 50 MB). A simulator is not:
// it forgets nothing, and above the limit it would only collect.
func LimitMemory(environ []string) {
	if !isSet(environ, "GOMEMLIMIT") {
		text, _ := os.ReadFile(cgroupMemory) // elsewhere than on Linux there is none
		debug.SetMemoryLimit(memoryLimitIn(string(text)))
	}
}

func isSet(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(entry string) bool {
		value, found := strings.CutPrefix(entry, name+"=")
		return found && value != ""
	})
}

// memoryLimitIn is the limit in a container of that size: half of it at most,
// for the other half is the store's.
func memoryLimitIn(container string) int64 {
	size, err := strconv.ParseInt(strings.TrimSpace(container), 10, 64)
	if err != nil || size <= 0 { // "max", or no container
		return memoryLimit
	}
	return min(memoryLimit, size/2)
}
