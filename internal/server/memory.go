package server

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

const (
	// gcPercent: a node's live heap is a few megabytes. With Go's default of 100 the
	// collector runs six times a second under load; with 400 it runs once or twice, for
	// some 40 MB more at the peak. Beyond that little is gained.
	gcPercent = 400
	// memoryLimit bounds the cost of gcPercent with a larger live heap: above it Go
	// collects as often as needed. SQLite's memory is not part of it.
	memoryLimit = 144 << 20
)

// cgroupMemory is the file with a container's memory limit on Linux.
const cgroupMemory = "/sys/fs/cgroup/memory.max"

// SetGCPercent makes the garbage collector run less often, unless GOGC is set.
func SetGCPercent(environ []string) {
	if !isSet(environ, "GOGC") {
		debug.SetGCPercent(gcPercent)
	}
}

// SetMemoryLimit sets Go's memory limit, unless GOMEMLIMIT is set. It is for a node, whose
// own limits bound its memory (4,096 connections take 60 MB, 100,000 failing addresses
// 50 MB). A simulator never frees its records, and above the limit would only collect.
func SetMemoryLimit(environ []string) {
	if !isSet(environ, "GOMEMLIMIT") {
		text, _ := os.ReadFile(cgroupMemory) // there is none on other systems
		debug.SetMemoryLimit(memoryLimitIn(string(text)))
	}
}

func isSet(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(entry string) bool {
		value, found := strings.CutPrefix(entry, name+"=")
		return found && value != ""
	})
}

// memoryLimitIn returns the limit in a container of that size: at most half of it, because
// the store needs the other half.
func memoryLimitIn(container string) int64 {
	size, err := strconv.ParseInt(strings.TrimSpace(container), 10, 64)
	if err != nil || size <= 0 { // "max", or no container
		return memoryLimit
	}
	return min(memoryLimit, size/2)
}
