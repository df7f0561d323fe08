package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/backup"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/money"
)

// Forgotten is what a restored store has forgotten besides operations, as far as logs tell.
type Forgotten struct {
	// Described: the source says of its installation whether it had a security log, and where.
	Described bool
	// Read are the logs that were found and read; Problems says why others were not.
	Read     []string
	Problems []string
	// Events are what people did since the backup, in their order.
	Events []ForgottenEvent
	// Head is the newest audit head that was found; nil if none was. MissingActions is how
	// many staff actions it has more than the backup.
	Head           *audit.Head
	MissingActions int64
}

// ForgottenEvent is an event of the security log.
type ForgottenEvent struct {
	At       time.Time `json:"time"`
	Event    string    `json:"event"`
	Actor    string    `json:"actor,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Action   string    `json:"action,omitempty"`
	Operator int64     `json:"lco_id,omitempty"`
	// Amount is how much a wallet changed.
	Amount string `json:"amount,omitempty"`
	// Changes are the fields that changed, as "price 349.00 → 399.00".
	Changes []string `json:"changes,omitempty"`
}

// notRepeated are events of people that change nothing which a restore could forget.
var notRepeated = []string{
	"signed_in", "sign_in_password_accepted", "sign_in_failed", "signed_out", "session_ended", "step_up_passed", "step_up_failed",
	"access_refused", "cross_site_refused", "api_throttled", "approval_refused",
}

// FindForgotten reads the logs, and the security log that the backup names if it is there, with
// those that logrotate has moved away since the backup.
func FindForgotten(m backup.Manifest, logs []string) (f Forgotten) {
	f.Described = m.Release != "" // a SQLite file that was copied by other means has no manifest
	// The logs have the machine's time, the store that of the service.
	since := m.TakenAt.Add(-m.ClockOffset)
	if m.SecurityFile != "" {
		logs = slices.Clone(logs)
		for _, path := range append(rotated(m.SecurityFile, since), m.SecurityFile) {
			if _, err := os.Stat(path); err == nil && !slices.Contains(logs, path) {
				logs = append(logs, path)
			}
		}
	}
	for _, path := range logs {
		if err := f.read(path, since); err != nil {
			f.Problems = append(f.Problems, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		f.Read = append(f.Read, path)
	}
	slices.SortStableFunc(f.Events, func(a, b ForgottenEvent) int { return a.At.Compare(b.At) })
	if f.Head != nil {
		f.MissingActions = max(0, f.Head.Actions-m.Actions)
	}
	return f
}

// rotated returns what logrotate made of a log, such as security.log.1, security.log.2.gz and
// security.log-20261101, if it may have lines since a moment: its last one is not older.
func rotated(path string, since time.Time) (found []string) {
	for _, pattern := range []string{".[0-9]*", "-[0-9]*"} {
		paths, err := filepath.Glob(globEscape(path) + pattern)
		if err != nil {
			continue
		}
		for _, each := range paths {
			if info, err := os.Stat(each); err == nil && info.Mode().IsRegular() && !info.ModTime().Before(since) {
				found = append(found, each)
			}
		}
	}
	return found
}

func (f *Forgotten) read(path string, since time.Time) error {
	file, err := os.Open(path)
	if err != nil {
		return fileowner.Explain(path, err)
	}
	defer file.Close()
	var from io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return err
		}
	}
	events, err := readEvents(from, since)
	if err != nil {
		return err
	}
	f.Events = append(f.Events, events...)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil // a pipe has no second pass
	}
	if again, compressed := from.(*gzip.Reader); compressed {
		if err := again.Reset(file); err != nil {
			return err
		}
	}
	heads, err := audit.ReadHeads(from)
	if err != nil {
		return nil // a security log has none
	}
	for _, head := range heads {
		if f.Head == nil || head.Actions > f.Head.Actions {
			f.Head = &head
		}
	}
	return nil
}

const longestLogLine = 16 << 20

// readEvents reads the events since a moment from lines of JSON. Other lines are skipped; a
// line may be torn, or of another program.
func readEvents(from io.Reader, since time.Time) (events []ForgottenEvent, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), longestLogLine)
	for lines.Scan() {
		line := lines.Bytes()
		at := bytes.IndexByte(line, '{')
		if at < 0 || !bytes.Contains(line, []byte(`"security"`)) {
			continue
		}
		var e struct {
			Time     time.Time
			Msg      string
			Event    string
			Outcome  string
			Actor    string
			Subject  string
			Action   string
			Operator int64
			Change   map[string]struct{ From, To string }
		}
		// The end of a torn line may have another line's text behind it.
		if json.Unmarshal(line[at:], &e) != nil || e.Msg != "security" || e.Outcome != "done" || e.Time.Before(since) || slices.Contains(notRepeated, e.Event) {
			continue
		}
		one := ForgottenEvent{At: e.Time, Event: e.Event, Actor: e.Actor, Subject: e.Subject, Action: e.Action, Operator: e.Operator}
		for _, field := range shownChanges {
			change, ok := e.Change[field]
			switch {
			case !ok:
			case field == "wallet_balance" && walletChange(change.From, change.To) != "":
				one.Amount = walletChange(change.From, change.To)
			default:
				one.Changes = append(one.Changes, fmt.Sprintf("%s %s → %s", field, orNone(change.From), orNone(change.To)))
			}
		}
		events = append(events, one)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, errors.New("it has a line of more than 16 MB, which is none of a log of Coax")
	} else if err != nil {
		return nil, err
	}
	return events, nil
}

// walletChange returns the difference of two balances, with its sign; "" if they are none.
func walletChange(from, to string) string {
	before, errBefore := money.Parse(from)
	after, errAfter := money.Parse(to)
	if errBefore != nil || errAfter != nil {
		return ""
	}
	moved := after.Add(before.Neg())
	if moved.IsNegative() {
		return moved.String()
	}
	return "+" + moved.String()
}

func orNone(text string) string {
	if text == "" || text == "null" {
		return "none"
	}
	return text
}

// String is the event on a line, for a person.
func (e ForgottenEvent) String() string {
	what := e.Event
	if what == "staff_action" && e.Action != "" {
		what = e.Action
	}
	parts := []string{strings.ReplaceAll(what, "_", " ")}
	if e.Amount != "" {
		parts = append(parts, e.Amount)
	}
	if e.Subject != "" {
		parts = append(parts, e.Subject)
	}
	if e.Operator != 0 && !strings.Contains(e.Subject, "lco ") {
		parts = append(parts, "lco "+strconv.FormatInt(e.Operator, 10))
	}
	parts = append(parts, e.Changes...)
	line := strings.Join(parts, ", ")
	if e.Actor != "" {
		line += " (" + e.Actor + ")"
	}
	return oneLineOf(line)
}

// oneLineOf keeps control characters of a log from a terminal.
func oneLineOf(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, text)
}
