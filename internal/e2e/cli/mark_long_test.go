//go:build long

package cli

import "testing"

func TestMarkFile_SurvivesManyKills(t *testing.T) {
	t.Parallel()
	killAndStart(t, 50)
}
