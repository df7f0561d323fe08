//go:build long

package cli

// tableStep is how many tables of a copy are left between two interruptions.
const tableStep = 1

// restoreKills is how often a restore is killed, evenly over its time.
const restoreKills = 12
