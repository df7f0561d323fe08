//go:build !long

package cli

// In make test a copy is interrupted in every 25th table, a backup and a restore are killed less
// often, and one size of a full disk is tried: each try takes seconds.
const (
	tableStep    = 25
	backupKills  = 3
	restoreKills = 2
)

// restorePoints are the crash points at which a restore into a database is killed.
var restorePoints = []string{"C.compared"}

// smallDisks are the sizes of full disks in KB.
var smallDisks = []int{200}
