package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestAGapAmongSubscriberIDsIsFound(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "coax.db"))
	defer db.Close()
	storetest.FindsGaps(t, db, db.SearchID)
}
