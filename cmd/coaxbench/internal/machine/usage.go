// Package machine starts the processes that a comparison needs, and reads from
// the system what they take of it.
package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
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

// WatchStolen begins to watch how much of the machine its host gives to others. What
// it returns says which part of it that was since, 0 to 1; where the system does not
// tell, none.
func WatchStolen() (part func() float64) {
	stolen, all := readStolen()
	return func() float64 {
		stolenNow, allNow := readStolen()
		if allNow <= all || stolenNow <= stolen {
			return 0
		}
		return float64(stolenNow-stolen) / float64(allNow-all)
	}
}

// ProbeStolen has all processors work for a second, and says which part of the machine
// its host gave to others meanwhile.
func ProbeStolen() float64 {
	part := WatchStolen()
	end := time.Now().Add(time.Second)
	var group sync.WaitGroup
	for range runtime.NumCPU() {
		group.Go(func() {
			for time.Now().Before(end) { // nothing but work
			}
		})
	}
	group.Wait()
	return part()
}

func readStolen() (stolen, all uint64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	return parseStolen(string(text))
}

// parseStolen reads the first line: user, nice, system, idle, iowait, irq, softirq,
// steal. What follows is counted among these already.
func parseStolen(text string) (stolen, all uint64) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0
	}
	for _, field := range fields[1:9] {
		ticks, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, 0
		}
		stolen, all = ticks, all+ticks
	}
	return stolen, all
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
