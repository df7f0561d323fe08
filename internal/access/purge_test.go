package access

import (
	"context"
	"errors"
	"testing"
	"time"
)

// purgeStore has a number of rows that nobody asks for any more.
type purgeStore struct {
	fakeStore
	rows    int
	batches int
	after   func(batch int)
	err     error
	nonces  time.Time
	minutes int64
}

func (s *purgeStore) PurgeAdmissions(_ context.Context, noncesBefore time.Time, minutesBefore int64, most int) (int, error) {
	s.batches++
	s.nonces, s.minutes = noncesBefore, minutesBefore
	if s.err != nil {
		return 0, s.err
	}
	gone := min(s.rows, most)
	s.rows -= gone
	if s.after != nil {
		s.after(s.batches)
	}
	return gone, nil
}

func TestPurge_UntilShortBatch(t *testing.T) {
	for _, tt := range []struct {
		name          string
		rows, batches int
	}{
		{"nothing to do", 0, 1},
		{"less than a batch", purgeBatch - 1, 1},
		{"exactly a batch", purgeBatch, 2},
		{"many", 3*purgeBatch + 7, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &purgeStore{rows: tt.rows}
			removed, err := NewAuthorizer(store, nil, AuthorizerConfig{}).Purge(t.Context(), now)
			if err != nil || removed != tt.rows || store.rows != 0 || store.batches != tt.batches {
				t.Errorf("removed %d in %d batches, %v; want %d in %d", removed, store.batches, err, tt.rows, tt.batches)
			}
			if want := now.Add(-24 * time.Hour); !store.nonces.Equal(want) {
				t.Errorf("nonces before %v went; want before %v", store.nonces, want)
			}
			if want := now.Unix()/60 - 5; store.minutes != want {
				t.Errorf("counters before minute %d went; want before %d", store.minutes, want)
			}
		})
	}
}

func TestPurge_StopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := &purgeStore{rows: 10 * purgeBatch, after: func(batch int) {
		if batch == 2 {
			cancel()
		}
	}}
	removed, err := NewAuthorizer(store, nil, AuthorizerConfig{}).Purge(ctx, now)
	if !errors.Is(err, context.Canceled) || removed != 2*purgeBatch || store.batches != 2 {
		t.Errorf("removed %d in %d batches, %v; want it to stop after two", removed, store.batches, err)
	}
}

func TestPurge_ReportsStoreError(t *testing.T) {
	broken := errors.New("database is locked")
	removed, err := NewAuthorizer(&purgeStore{err: broken}, nil, AuthorizerConfig{}).Purge(t.Context(), now)
	if !errors.Is(err, broken) || removed != 0 {
		t.Errorf("Purge = %d, %v; want the store's error", removed, err)
	}
}
