package growth

import "syscall"

// endingWithUs makes a process end when the one that started it does.
func endingWithUs(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGINT }
