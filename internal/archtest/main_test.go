package archtest

import (
	"fmt"
	"os"
	"testing"
)

// TestMain lets the tests name files by their path below the module's root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
