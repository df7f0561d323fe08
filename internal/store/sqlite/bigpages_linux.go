package sqlite

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// bigPage is what the system maps in one piece where it is told that it may.
const bigPage = 2 << 20

// bigPages is memory for the life of the process, outside of Go's and begun where a
// big page does; nil if the system has none.
func bigPages(size int) []byte {
	all, err := unix.Mmap(-1, 0, size+bigPage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	begin := -uintptr(unsafe.Pointer(&all[0])) % bigPage
	memory := all[begin:][:size]
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // a system without them has small ones
	return memory
}
