package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// RunningSimulator is a provider on a socket.
type RunningSimulator struct {
	*simulator.Simulator
	URL  string
	Stop func()
}

// StartSimulator runs a simulator, whose books are kept in a file if one is
// named.
func StartSimulator(addr, stateFile string) (*RunningSimulator, error) {
	var lock io.Closer
	if stateFile != "" {
		// Two that keep the same books would write over each other.
		file, err := sqlite.LockFolder(stateFile + ".lock")
		if err != nil {
			return nil, err
		}
		lock = file
	}
	provider, err := simulator.New(simulator.Config{Now: time.Now, StateFile: stateFile})
	if err != nil {
		return nil, errors.Join(err, closeLock(lock))
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the simulator: %w", err), closeLock(lock))
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = provider.Serve(listener)
	}()
	return &RunningSimulator{
		Simulator: provider,
		URL:       "http://" + server.Reachable(listener.Addr()),
		Stop: sync.OnceFunc(func() {
			_ = provider.Shutdown(context.Background())
			<-served
			_ = closeLock(lock)
		}),
	}, nil
}

func closeLock(lock io.Closer) error {
	if lock == nil {
		return nil
	}
	return lock.Close()
}
