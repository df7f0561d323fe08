package server

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// lowestNice is the lowest priority within the normal scheduling policy.
	lowestNice = 19
	// maxThreadScans bounds how often the threads are listed; two scans are usually enough.
	maxThreadScans = 16
)

// LowerPriority makes this process run only while nothing else wants the processor or
// the disk, for good. On Linux priority belongs to each thread, and a new thread inherits
// it from the thread that starts it. So all threads are changed, until a scan finds none
// left to change.
//
// Errors are ignored: an audit also works at normal priority. The effect is limited to
// the process's control group and session.
func LowerPriority() {
	for range maxThreadScans {
		changed := false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				return
			}
			if attributes, err := unix.SchedGetAttr(id, 0); err != nil || attributes.Policy == unix.SCHED_IDLE || attributes.Nice == lowestNice {
				continue // it has ended, or has low priority already
			}
			if !lowerThread(id) {
				return
			}
			changed = true
		}
		if !changed {
			return
		}
	}
}

// lowerThread changes one thread: to the idle policy, or to the lowest nice value if
// that is not permitted.
func lowerThread(thread int) bool {
	lowerDiskPriority(thread)
	idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	return unix.SchedSetAttr(thread, &idle, 0) == nil || unix.Setpriority(unix.PRIO_PROCESS, thread, lowestNice) == nil
}

// lowerDiskPriority sets the idle class of ioprio_set(2), which not every I/O scheduler
// honours.
func lowerDiskPriority(thread int) {
	const (
		ofProcess  = 1
		idleClass  = 3
		classShift = 13
	)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, uintptr(thread), idleClass<<classShift)
}
