package server

import "syscall"

// clockUnsynchronized is STA_UNSYNC of adjtimex.
const clockUnsynchronized = 0x40

// clockSynchronized asks the kernel, to which NTP services report.
func clockSynchronized() (yes, known bool) {
	var clock syscall.Timex
	_, err := syscall.Adjtimex(&clock)
	return err == nil && clock.Status&clockUnsynchronized == 0, err == nil
}
