//go:build !long

package cli

// In make test a copy is interrupted in every ninth table, and a restore killed less often:
// each try takes seconds.
const (
	tableStep    = 9
	restoreKills = 4
)

// restorePoints are the crash points at which a restore into a database is killed.
var restorePoints = []string{"C.compared"}
