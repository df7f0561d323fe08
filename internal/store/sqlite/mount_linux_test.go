package sqlite

import "syscall"

func mountMemory(folder, size string) error {
	return syscall.Mount("tmpfs", folder, "tmpfs", 0, "size="+size)
}

func growMemory(folder, size string) error {
	return syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, "size="+size)
}

func remount(folder string, readOnly bool) error {
	flags := uintptr(syscall.MS_REMOUNT)
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	return syscall.Mount("tmpfs", folder, "tmpfs", flags, "")
}

func unmount(folder string) { _ = syscall.Unmount(folder, syscall.MNT_DETACH) }
