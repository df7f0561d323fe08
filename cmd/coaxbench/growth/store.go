package growth

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Kind is which of the stores is filled.
type Kind string

// The two kinds of store.
const (
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
)

// Store is a filled one.
type Store struct {
	Kind Kind `json:"kind"`
	Size
	// FilledAt is when its last operation was made.
	FilledAt time.Time `json:"filled_at"`
	// Took is how long the filling lasted, and Bytes what it came to on the disk.
	Took  time.Duration `json:"took"`
	Bytes int64         `json:"bytes"`
	// MasterKey is what a node has to have for its secrets.
	MasterKey []byte     `json:"master_key"`
	Accounts  []Operator `json:"accounts"`
	PlanIDs   []string   `json:"plan_ids"`

	// Folder is where it is kept: see Filled.
	Folder string `json:"-"`
	// Reused: it was there already.
	Reused bool `json:"-"`
}

func (b *books) store(kind Kind, operators []Operator, masterKey []byte) Store {
	s := Store{Kind: kind, Size: b.size(), Accounts: operators, MasterKey: masterKey, FilledAt: time.UnixMilli(b.base + int64(b.rounds)*month).UTC()}
	for _, p := range plans {
		s.PlanIDs = append(s.PlanIDs, p.id)
	}
	return s
}

// Path is a SQLite store's file, which a node may open.
func (s Store) Path() string { return filepath.Join(s.Folder, "coax.db") }

// Data is a PostgreSQL store's data folder, for StartCluster; the database in it is
// called Database.
func (s Store) Data() string { return filepath.Join(s.Folder, "data") }

// Database is the name of the filled database in a PostgreSQL store.
const Database = "coax"

// MasterKeyFile is where the master key is kept, as a node wants it.
func (s Store) MasterKeyFile() string { return filepath.Join(s.Folder, "master.key") }

// SubscribersOf is how many subscribers each operator has.
func (s Store) SubscribersOf() int { return s.Subscribers / s.Operators }

// Subscriber is the id of an operator's nth subscriber, both counted from zero.
// Who follows whom in this order has nothing to do with where they are kept.
func (s Store) Subscriber(operator, nth int) string {
	b := books{operators: s.Operators, customers: s.Subscribers}
	return b.subscriberID((nth*b.operators + operator) % b.customers)
}

const manifest = "filled.json"

// readStore reads what a folder says of itself.
func readStore(folder string) (s Store, err error) {
	text, err := os.ReadFile(filepath.Join(folder, manifest))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", filepath.Join(folder, manifest), err)
	}
	s.Folder, s.Reused = folder, true
	return s, nil
}

func (s Store) write() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.MasterKeyFile(), s.MasterKey, 0o400); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Folder, manifest), text, 0o600)
}
