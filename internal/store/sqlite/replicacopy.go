package sqlite

import (
	"context"
	"fmt"
)

// again continues a replica that is lost, or begins another copy.
func (r *replication) again() error {
	ctx, cancel := context.WithTimeout(r.background, asyncTimeout)
	defer cancel()
	resumed, err := r.replica.Resume(ctx)
	if err != nil {
		return err
	}
	if resumed {
		return r.writer.between(func() error {
			if err := r.capture(); err != nil || r.pinned {
				return err
			}
			return r.move(nil)
		})
	}
	if err := r.begin(); err != nil {
		r.copyPause = min(max(2*r.copyPause, retryPause), maxCopyPause)
		return err
	}
	r.copyPause = 0
	return nil
}

// begin copies the whole store.
func (r *replication) begin() error {
	// A snapshot that is under way needs the pin where it is.
	r.callOff()
	r.renewing.Wait()
	ctx := r.copyContext()
	var copyFile func(context.Context) error
	err := r.writer.between(func() error {
		r.frozen.Store(true)
		return r.move(func(complete bool) (err error) {
			copyFile, err = r.replica.Begin(r.file, complete)
			return err
		})
	})
	if err == nil {
		err = copyFile(ctx)
	}
	r.frozen.Store(false)
	r.callOff()
	if err != nil {
		_ = r.writer.between(r.unpin)
	}
	return err
}

// copyContext returns a context of a copy, which callOff ends.
func (r *replication) copyContext() context.Context {
	ctx, cancel := context.WithCancel(r.background)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelCopy = cancel
	return ctx
}

// callOff makes a copy that is under way fail.
func (r *replication) callOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancelCopy != nil {
		r.cancelCopy()
	}
}

// renew takes another snapshot when it is time.
func (r *replication) renew() {
	now := r.options.Now()
	r.mu.Lock()
	early := now.Before(r.renewAfter)
	r.mu.Unlock()
	if early || !r.replica.RenewDue() || !r.frozen.CompareAndSwap(false, true) {
		return
	}
	ctx := r.copyContext()
	var copyFile func(context.Context) error
	err := r.writer.between(func() error {
		return r.move(func(complete bool) (err error) {
			copyFile, err = r.replica.Renew(r.file, complete)
			return err
		})
	})
	if err != nil {
		r.frozen.Store(false)
		return
	}
	r.renewing.Go(func() {
		defer r.frozen.Store(false)
		err := copyFile(ctx)
		if err == nil {
			return
		}
		r.mu.Lock()
		r.renewAfter = now.Add(renewPause)
		r.state.Errors++
		r.mu.Unlock()
		if r.options.Report != nil {
			r.options.Report(fmt.Errorf("copy the store again: %w", err))
		}
	})
}
