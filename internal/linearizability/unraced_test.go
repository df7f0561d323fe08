//go:build long && !race

package linearizability_test

// raced: the race detector is watching.
const raced = false
