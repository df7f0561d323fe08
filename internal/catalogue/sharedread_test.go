package catalogue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestSharedRead_BeginsAfterTheCall(t *testing.T) {
	t.Parallel()
	var written, reads atomic.Int64
	shared := newSharedRead[int64]()
	read := func(context.Context) (int64, error) {
		reads.Add(1)
		return written.Load(), nil
	}
	var callers sync.WaitGroup
	const each = 500
	for range 16 {
		callers.Go(func() {
			for range each {
				before := written.Add(1)
				if found, err := shared.do(t.Context(), read); err != nil || found < before {
					t.Errorf("read %d, %v, after %d was written", found, err, before)
				}
			}
		})
	}
	callers.Wait()
	t.Logf("%d reads for %d calls", reads.Load(), 16*each)
}

func TestSharedRead_WaitingCallersShareOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, reads, release := newSharedRead[int](), 0, make(chan struct{})
		read := func(context.Context) (int, error) {
			reads++
			if reads == 1 {
				<-release
			}
			return reads, nil
		}
		var callers sync.WaitGroup
		callers.Go(func() { _, _ = shared.do(t.Context(), read) })
		synctest.Wait() // the first read has begun
		for range 20 {
			callers.Go(func() {
				if found, err := shared.do(t.Context(), read); err != nil || found != 2 {
					t.Errorf("a caller that came during the first read has %d, %v; want the second", found, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		callers.Wait()
		if reads != 2 {
			t.Errorf("%d reads; want one for all 20 that waited", reads)
		}
	})
}

func TestSharedRead_OutlivesItsCaller(t *testing.T) {
	t.Parallel()
	shared := newSharedRead[string]()
	ctx, hangUp := context.WithCancel(t.Context())
	found, err := shared.do(ctx, func(ctx context.Context) (string, error) {
		hangUp()
		return "all", ctx.Err()
	})
	if found != "all" || err != nil {
		t.Errorf("the read was cancelled with its caller: %q, %v", found, err)
	}

	// A caller that hangs up while it waits leaves the turn to others.
	holding, release := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		_, _ = shared.do(t.Context(), func(context.Context) (string, error) { close(holding); <-release; return "first", nil })
	})
	<-holding
	if _, err := shared.do(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has hung up got %v", err)
	}
	close(release)
	first.Wait()
	if found, err := shared.do(t.Context(), func(context.Context) (string, error) { return "next", nil }); found != "next" || err != nil {
		t.Errorf("afterwards: %q, %v", found, err)
	}
}

func TestSharedRead_EndsAReadThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedRead[int]()
		_, err := shared.do(t.Context(), func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a read that hangs ended with %v", err)
		}
		if found, err := shared.do(t.Context(), func(context.Context) (int, error) { return 7, nil }); found != 7 || err != nil {
			t.Errorf("afterwards: %d, %v", found, err)
		}
	})
}

func TestSharedRead_PanicEndsOnlyOneCall(t *testing.T) {
	t.Parallel()
	shared := newSharedRead[int]()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the caller that reads does not see the panic")
			}
		}()
		_, _ = shared.do(t.Context(), func(context.Context) (int, error) { panic("a bug") })
	}()
	if found, err := shared.do(t.Context(), func(context.Context) (int, error) { return 7, nil }); found != 7 || err != nil {
		t.Errorf("after a panic: %d, %v", found, err)
	}
}
