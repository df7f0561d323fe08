//go:build long

package cli

// tableStep is how many tables of a copy are left between two interruptions.
const tableStep = 1

// restoreKills is how often a restore is killed, evenly over its time.
const restoreKills = 12

// restorePoints are the crash points at which a restore into a database is killed.
var restorePoints = []string{"C.begun", "C.batch", "C.batch", "C.rest", "C.compared", "C.audited", "C.marked"}
