package telemetry

import (
	"io"
	"runtime"
	"sync"
)

// queueBytes is how much may wait for a slow reader of the log. Beyond it callers wait
// too: no line is dropped.
const queueBytes = 1 << 20

// lineWriter writes lines in the order in which they came. Write waits for its line;
// queue does not. A goroutine that exists while there is something to write takes all
// queued lines in one write, without a timer. So a killed process loses only the lines
// that it was about to write at that moment.
type lineWriter struct {
	out io.Writer

	mu      sync.Mutex
	moved   *sync.Cond // something was written
	waiting []byte
	spare   []byte // what waiting was before, to be used again
	writing bool   // the goroutine exists
	queued  int64  // bytes altogether
	written int64
	err     error // of the last write
}

func newLineWriter(out io.Writer) *lineWriter {
	l := &lineWriter{out: out}
	l.moved = sync.NewCond(&l.mu)
	return l
}

// queue takes a line without waiting until it is written.
func (l *lineWriter) queue(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(line)
}

// Write returns when the line is written, and every line before it.
func (l *lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(line)
	l.await(l.queued)
	if l.err != nil {
		return 0, l.err
	}
	return len(line), nil
}

// flush returns when what was queued before it is written.
func (l *lineWriter) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.await(l.queued)
}

func (l *lineWriter) add(line []byte) {
	for len(l.waiting) > queueBytes {
		l.moved.Wait()
	}
	l.waiting = append(l.waiting, line...)
	l.queued += int64(len(line))
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

func (l *lineWriter) await(upTo int64) {
	for l.written < upTo {
		l.moved.Wait()
	}
}

// write writes until nothing is left.
func (l *lineWriter) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 {
		// Let other goroutines queue their lines first: one write costs the same for
		// one line and for many.
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
		lines := l.waiting
		l.waiting = l.spare[:0]
		l.mu.Unlock()
		_, err := l.out.Write(lines)
		l.mu.Lock()
		l.spare, l.err = lines, err
		l.written += int64(len(lines))
		l.moved.Broadcast()
	}
	l.writing = false
}
