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

// RunningSimulator is a simulator that serves on a socket.
type RunningSimulator struct {
	*simulator.Simulator
	URL  string
	Stop func()
}

// StartSimulator starts a simulator, which saves its state in stateFile unless that is "".
func StartSimulator(addr, stateFile string) (*RunningSimulator, error) {
	var lock io.Closer
	if stateFile != "" {
		// Two simulators would overwrite each other's state.
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
