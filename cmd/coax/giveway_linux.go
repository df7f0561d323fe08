package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// niceLast is as far as a thread can stand back without leaving the common
	// queue.
	niceLast = 19
	// threadsAtOnce bounds how often threads are looked for that came meanwhile:
	// hardly ever more than twice, but for a system that tells one thing and does
	// another.
	threadsAtOnce = 16
)

// giveWay has this process run only where nothing else wants to, for good. On
// Linux that is a matter of each thread, and a thread that is started begins as
// the one that starts it. So all there are are set, again and again until none
// was found that had to be: from then on there is nobody left to start another
// kind.
//
// It is a courtesy. A system that refuses it is audited all the same, and not
// every one can grant it: who counts as nothing else is decided within a control
// group, and within a session.
func giveWay() {
	for range threadsAtOnce {
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
			if attributes, err := unix.SchedGetAttr(id, 0); err != nil || attributes.Policy == unix.SCHED_IDLE || attributes.Nice == niceLast {
				continue // it has ended, or stands back already
			}
			if !standBack(id) {
				return
			}
			changed = true
		}
		if !changed {
			return
		}
	}
}

// standBack sets one thread. What is not allowed to leave the common queue goes to
// its end.
func standBack(thread int) bool {
	readLast(thread)
	idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	return unix.SchedSetAttr(thread, &idle, 0) == nil || unix.Setpriority(unix.PRIO_PROCESS, thread, niceLast) == nil
}

// readLast has the disk serve a thread when nobody else waits, if whoever orders
// the disk's work knows of such things.
func readLast(thread int) {
	const (
		ofProcess  = 1
		idleClass  = 3
		classShift = 13
	)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, uintptr(thread), idleClass<<classShift)
}
