// Package machine starts the processes that a comparison needs, and reads from
// the system what they take of it.
package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which Linux counts a process's time, on every machine.
const tick = 10 * time.Millisecond

// CPU is how long a process has kept processors busy so far, with the children
// that it has buried.
func CPU(pid int) (time.Duration, error) {
	s, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	return s.cpu, nil
}

// CPUOfTree is that of a process and all its children. A child that ends while
// it is watched is counted with its parent from then on.
func CPUOfTree(pid int) (time.Duration, error) {
	sum, err := CPU(pid)
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil && s.parent == pid {
			sum += s.cpu
		}
	}
	return sum, nil
}

type stat struct {
	parent int
	cpu    time.Duration
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, fmt.Errorf("read what process %d has used: %w", pid, err)
	}
	return parseStat(string(text))
}

// parseStat reads a line of proc(5): pid (name) state ppid …, where the name may
// hold anything, and the times are from the fourteenth field on.
func parseStat(text string) (stat, error) {
	end := strings.LastIndex(text, ") ")
	if end < 0 {
		return stat{}, fmt.Errorf("%q is no line of /proc/PID/stat", text)
	}
	fields := strings.Fields(text[end+2:])
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("%q is no line of /proc/PID/stat", text)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, err
	}
	s := stat{parent: parent}
	for _, field := range fields[11:15] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(ticks) * tick
	}
	return s, nil
}

// Memory is what of a process is in the machine's memory, in bytes.
type Memory struct {
	Resident int64 `json:"resident_bytes"`
	// Peak is the most it ever was.
	Peak int64 `json:"peak_bytes"`
}

// MemoryOf reads a process's memory.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, fmt.Errorf("read what memory process %d has: %w", pid, err)
	}
	return parseStatus(string(text))
}

func parseStatus(text string) (Memory, error) {
	var m Memory
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &m.Resident, "VmHWM": &m.Peak}[name]
		if into == nil {
			continue
		}
		number, found := strings.CutSuffix(strings.TrimSpace(value), " kB")
		kib, err := strconv.ParseInt(number, 10, 64)
		if err != nil || !found {
			return m, fmt.Errorf("%q is no size of /proc/PID/status", value)
		}
		*into = kib << 10
	}
	if m.Resident == 0 || m.Peak == 0 {
		return m, errors.New("the process has ended, or this system does not tell its size")
	}
	return m, nil
}
