package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

// State is what a store says about itself, for a command that only looks.
type State struct {
	// Migration is the newest migration, and Generation the oldest one of a binary that can
	// work with the schema.
	Migration  int64
	Generation int
	// Complete is false if the schema is another than asked for; the rest is not read then.
	Complete bool

	Mark        admin.StoreMark
	Maintenance admin.Maintenance
	Restore     admin.Restore
	// Newest is when the newest operation or staff action was made.
	Newest time.Time
	// PricesVerified is when the catalogue was compared last with success, and PricesProblem
	// what the last comparison found.
	PricesVerified time.Time
	PricesProblem  string
	// FirstHash is the hash of the first staff action, by which backups know their store.
	FirstHash []byte
	// MasterKeys are the required master keys, PrimaryKey the one that seals (0 before the first
	// rotation), and Sealed counts what is sealed, by master key.
	MasterKeys []admin.MasterKey
	PrimaryKey uint32
	Sealed     map[uint32]int64
	// KeyProblem says that the master key is not the one of the store.
	KeyProblem error
}

// ReadState reads the state of a store whose newest migration is the given one. Without
// proofs of the master key, that is not compared.
func ReadState(from Querier, migration int64, provider string, proofs map[uint32][]byte) (s State, err error) {
	err = from.QueryRow(`SELECT coalesce(max(migration), 0), coalesce(max(oldest_generation), 0) FROM schema_tolerance`).Scan(&s.Migration, &s.Generation)
	if err != nil || s.Migration < migration {
		return s, err
	}
	s.Complete = true
	if s.Mark, err = ReadStoreMark(from); err != nil {
		return s, err
	}
	if s.Maintenance, err = readMaintenance(from); err != nil {
		return s, err
	}
	if s.Restore, err = readOpenRestore(from); err != nil {
		return s, err
	}
	if s.Newest, err = readLastKnown(from); err != nil {
		return s, err
	}
	var verified sql.NullInt64
	err = from.QueryRow(`SELECT verified_at, problem FROM catalogue_comparisons WHERE provider = $1`, provider).Scan(&verified, &s.PricesProblem)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("read when prices were compared: %w", err)
	}
	s.PricesVerified = Time(verified)
	err = from.QueryRow(`SELECT hash FROM staff_acts ORDER BY id LIMIT 1`).Scan(&s.FirstHash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("read the first staff action: %w", err)
	}
	if s.PrimaryKey, err = readPrimary(from); err != nil {
		return s, err
	}
	if s.MasterKeys, err = readMasterKeys(from); err != nil {
		return s, err
	}
	if s.Sealed, err = sealedWith(from); err != nil {
		return s, err
	}
	if proofs != nil {
		_, s.KeyProblem = compareMasterKeys(from, proofs)
	}
	return s, nil
}
