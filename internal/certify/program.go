package certify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
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
	keepOutput = 1 << 16
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

// startProcess starts the program. What it prints goes through the watch as it comes.
func startProcess(command, environ []string, secrets *watch) (*process, error) {
	p := &process{
		command: exec.Command(command[0], command[1:]...),
		writes:  make(chan []byte, 256), lines: make(chan []byte, 16), errors: &output{}, exited: make(chan struct{}),
	}
	p.command.Env = environ
	p.command.Stderr = io.MultiWriter(p.errors, secrets.stream("standard error"))
	// A group of its own, so that a kill reaches what a shell script starts.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A child that holds standard error open must not hold up the end.
	p.command.WaitDelay = 2 * time.Second
	input, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, to := io.Pipe()
	p.command.Stdout = io.MultiWriter(secrets.stream("standard output"), to)
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

// watch finds secrets in what a program prints, while it prints.
type watch struct {
	mu      sync.Mutex
	forms   [][]byte
	longest int
	leaks   []string // the streams that had a secret
}

// add adds a secret that the program is about to be given.
func (w *watch) add(secret string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, form := range formsOf(secret) {
		if !slices.ContainsFunc(w.forms, func(known []byte) bool { return bytes.Equal(known, form) }) {
			w.forms = append(w.forms, form)
			w.longest = max(w.longest, len(form))
		}
	}
}

// stream returns where one stream of the program goes.
func (w *watch) stream(name string) io.Writer { return &stream{watch: w, name: name} }

// leaked lists the streams that had a secret.
func (w *watch) leaked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.leaks)
}

type stream struct {
	*watch
	name string
	tail []byte // a secret may come in two parts
}

func (s *stream) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.leaks, s.name) {
		return len(text), nil
	}
	s.tail = append(s.tail, text...)
	if slices.ContainsFunc(s.forms, func(form []byte) bool { return bytes.Contains(s.tail, form) }) {
		s.leaks = append(s.leaks, s.name)
	}
	kept := copy(s.tail, s.tail[max(0, len(s.tail)-s.longest+1):])
	s.tail = s.tail[:kept]
	return len(text), nil
}
