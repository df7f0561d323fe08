package machine

import "syscall"

// endWithParent has the system end a process when we are killed.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGTERM }
