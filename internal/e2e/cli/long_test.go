//go:build long

package cli

// tableStep is how many tables of a copy are left between two interruptions.
const tableStep = 1

// backupKills and restoreKills are how often each is killed, restores evenly over their time.
const (
	backupKills  = 8
	restoreKills = 12
)

// restorePoints are the crash points at which a restore into a database is killed.
var restorePoints = []string{"C.begun", "C.batch", "C.batch", "C.rest", "C.compared", "C.audited", "C.marked"}

// smallDisks are the sizes of full disks in KB.
var smallDisks = []int{16, 200, 400}
