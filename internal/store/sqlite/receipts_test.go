package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestReceipts_NumberWhatAnOlderReleaseSettled(t *testing.T) {
	dir := t.TempDir()
	storetest.LateReceipts(t, folder(dir), func(statement string) { rawExec(t, filepath.Join(dir, "coax.db"), statement) })
}
