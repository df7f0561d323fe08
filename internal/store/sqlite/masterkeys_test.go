package sqlite

import (
	"path/filepath"
	"testing"
	"time"
)

// After `coax migrate` and before any node, staff may issue keys already. The
// node that comes then has to open what they sealed.
func TestMasterKey_ToolFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	ours := map[uint32][]byte{7: []byte("ours")}
	another := map[uint32][]byte{7: []byte("another")}
	both := map[uint32][]byte{7: []byte("ours"), 8: []byte("added")}
	for _, step := range []struct {
		name    string
		role    Role
		proofs  map[uint32][]byte
		primary uint32
		taken   bool
	}{
		{"migrate, which asks for none", Node, nil, 0, true},
		{"the first tool", Tool, ours, 7, true},
		{"another tool, with another key", Tool, another, 7, false},
		{"the first node, with another key", Node, another, 7, false},
		{"a tool with one more, which only compares", Tool, both, 7, true},
		{"the first node", Node, ours, 7, true},
		{"a node with one more that does not seal yet", Node, both, 7, true},
		{"a node without it", Node, ours, 7, true},
		{"a node with one more that seals, which adds it", Node, both, 8, true},
		{"a tool without the one that was added", Tool, ours, 7, false},
	} {
		db, err := Open(t.Context(), path, Options{Role: step.role})
		if err != nil {
			t.Fatal(err)
		}
		if step.proofs != nil {
			if err := db.CheckMasterKeys(t.Context(), step.proofs, step.primary, now); (err == nil) != step.taken {
				t.Errorf("%s: %v; taken: %v", step.name, err, step.taken)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
