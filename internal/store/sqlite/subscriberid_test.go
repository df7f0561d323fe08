package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestSubscriberIDs_FewestDigits(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "coax.db"))
	defer db.Close()
	storetest.AssignsEveryID(t, db, db.AssignIDsOf)
}
