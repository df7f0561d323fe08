package replica

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Inspected is what a replica has.
type Inspected struct {
	// Store is the id of the store.
	Store string
	// At is when the newest upload was made; zero if there is no complete copy yet.
	At time.Time
}

// Inspect looks at a replica and changes nothing.
func Inspect(ctx context.Context, address Address, getenv func(string) string) (found Inspected, err error) {
	from, err := address.connect(getenv)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	text, err := readAll(ctx, from, identityName)
	if errors.Is(err, fs.ErrNotExist) {
		return found, fmt.Errorf("there is none yet at %s", address)
	}
	if err != nil {
		return found, fmt.Errorf("read %s: %w", address, err)
	}
	if found.Store, err = storeOf(text); err != nil {
		return found, err
	}
	generations, err := readGenerations(ctx, from)
	if err != nil || len(generations) == 0 {
		return found, err
	}
	newest := generations[len(generations)-1]
	if len(newest.snapshots) == 0 {
		return found, nil // it is being copied
	}
	found.At = newest.snapshots[len(newest.snapshots)-1].at
	last, err := newest.lastRecord(ctx, from)
	if err == nil && last != nil && last.at.After(found.At) {
		found.At = last.at
	}
	return found, err
}
