package certify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// wireOrder is a line of the program's input.
type wireOrder struct {
	ID        string          `json:"id"`
	BaseURL   string          `json:"base_url"`
	CACert    string          `json:"ca_cert"`
	APIKey    string          `json:"api_key"`
	APISecret string          `json:"api_secret"`
	Operation string          `json:"operation"`
	Key       string          `json:"idempotency_key"`
	Body      json.RawMessage `json:"body"`
}

// wireOutcome is a line of the program's output. Charged is optional.
type wireOutcome struct {
	ID            string          `json:"id"`
	Outcome       string          `json:"outcome"`
	TransactionID string          `json:"transaction_id"`
	Code          string          `json:"code"`
	Charged       json.RawMessage `json:"charged,omitempty"`
}

// process is one running copy of the program.
type process struct {
	command *exec.Cmd
	input   io.WriteCloser
	writes  chan []byte // closed to end the input
	lines   chan []byte // of its output; closed at its end
	errors  *output
	exited  chan struct{}
	// err is how it ended, once exited is closed.
	err error
}

// output keeps the end of what a program prints.
type output struct {
	mu   sync.Mutex
	text []byte
}

const (
	keepOutput = 1 << 20
	maxLine    = 1 << 18
)

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if len(o.text) > 2*keepOutput {
		o.text = append([]byte(nil), o.text[len(o.text)-keepOutput:]...)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

func startProcess(command, environ []string) (*process, error) {
	p := &process{
		command: exec.Command(command[0], command[1:]...),
		writes:  make(chan []byte, 256), lines: make(chan []byte, 16), errors: &output{}, exited: make(chan struct{}),
	}
	p.command.Env = environ
	p.command.Stderr = p.errors
	// A group of its own, so that a kill reaches what a shell script starts.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A child that holds standard error open must not hold up the end.
	p.command.WaitDelay = 2 * time.Second
	input, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, to := io.Pipe()
	p.command.Stdout = to
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	p.input = input
	go func() {
		p.err = p.command.Wait()
		_ = to.Close()
		close(p.exited)
	}()
	go p.write()
	go p.read(from)
	return p, nil
}

// write writes the orders: a program that reads slowly must not hold up the check.
func (p *process) write() {
	defer p.input.Close()
	for text := range p.writes {
		if _, err := p.input.Write(text); err != nil {
			for range p.writes { //nolint:revive // it has ended; what is left cannot be given
			}
			return
		}
	}
}

func (p *process) read(from io.Reader) {
	defer close(p.lines)
	lines := bufio.NewReaderSize(from, maxLine)
	for {
		text, err := lines.ReadSlice('\n')
		text = bytes.Clone(text)
		for err == bufio.ErrBufferFull { // the rest of a line that is too long
			_, err = lines.ReadSlice('\n')
		}
		if len(bytes.TrimSpace(text)) > 0 {
			p.lines <- text
		}
		if err != nil {
			return
		}
	}
}

func (p *process) give(o wireOrder) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p.writes <- append(text, '\n')
	return nil
}

// kill ends the program and all that it started.
func (p *process) kill() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
}

// watched is what a program has printed, in so far as it matters: whether one of the secrets
// was in it.
type watched struct {
	forms [][]byte
	tail  []byte // a secret may be printed in two parts
	leaks bool
}

func (w *watched) Write(text []byte) {
	w.tail = append(w.tail, text...)
	for _, form := range w.forms {
		w.leaks = w.leaks || bytes.Contains(w.tail, form)
	}
	if len(w.tail) > 4096 {
		w.tail = bytes.Clone(w.tail[len(w.tail)-4096:])
	}
}
