package audit

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Head is the end of the chain of staff actions and of the chain of digests. A store
// that was exported at a head contains it for ever, unless it was truncated or rewritten.
type Head struct {
	At time.Time `json:"at"`
	// Actions is the number of the last staff action.
	Actions int64  `json:"actions"`
	Hash    string `json:"hash"`
	MAC     string `json:"mac"`
	// Digests is the number of the last digest of wallet entries and ledger lines, and
	// Day its day.
	Digests   int64  `json:"digests"`
	Day       string `json:"day"`
	DigestMAC string `json:"digest_mac"`
}

// compareActionHeads compares an action with the exported heads that end with it.
func (a *auditor) compareActionHeads(c *signedChain, action *staffAction) {
	for _, head := range a.actionHeads[action.id] {
		switch {
		case head.Hash != hex.EncodeToString(action.hash):
			a.truncated(head.At, "staff action %d has the hash %s; expected %s", action.id, short(action.hash), ellipsis(head.Hash))
		case head.MAC != "" && head.MAC != hex.EncodeToString(c.macOf(action)):
			a.truncated(head.At, "staff action %d has the MAC %s; expected %s", action.id, short(c.macOf(action)), ellipsis(head.MAC))
		}
	}
	delete(a.actionHeads, action.id)
}

func (a *auditor) compareDigestHeads(d *digest) {
	for _, head := range a.digestHeads[d.number] {
		if head.DigestMAC != hex.EncodeToString(d.mac) {
			a.truncated(head.At, "ledger digest %d has the MAC %s; expected %s", d.number, short(d.mac), ellipsis(head.DigestMAC))
		}
	}
	delete(a.digestHeads, d.number)
}

func (a *auditor) truncated(at time.Time, format string, args ...any) {
	a.found("H1", "head of "+at.In(india).Format(time.DateTime), "the store was truncated or rewritten since: "+format, args...)
}

func ellipsis(text string) string {
	if len(text) > 12 {
		text = text[:12]
	}
	return text + "…"
}

// indexHeads indexes the exported heads by their numbers.
func (a *auditor) indexHeads(heads []Head) {
	a.actionHeads, a.digestHeads = map[int64][]Head{}, map[int64][]Head{}
	for _, head := range heads {
		a.actionHeads[head.Actions] = append(a.actionHeads[head.Actions], head)
		a.digestHeads[head.Digests] = append(a.digestHeads[head.Digests], head)
	}
	a.report.Compared = len(heads)
}

// sortedHeads returns the heads that were not found, by their number.
func sortedHeads(heads map[int64][]Head) (sorted [][]Head) {
	for _, number := range slices.Sorted(maps.Keys(heads)) {
		sorted = append(sorted, heads[number])
	}
	return sorted
}

// longestHeadLine is the maximum length of a line in a file with heads.
const longestHeadLine = 64 << 20

// ReadHeads reads every head in a file: what `coax audit --json` printed, or the log of a
// node, as JSON or as text. Lines without a head are skipped. Equal consecutive heads are
// returned once.
func ReadHeads(from io.Reader) ([]Head, error) {
	var heads []Head
	last := Head{}
	var rest bytes.Buffer // a document of several lines
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestHeadLine)
	for number := 1; lines.Scan(); number++ {
		line := lines.Bytes()
		if len(heads) == 0 && rest.Len() < 1<<20 {
			rest.Write(line)
			rest.WriteByte('\n')
		}
		head, found, err := headIn(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if !found {
			continue
		}
		same := head
		if same.At = last.At; len(heads) > 0 && same == last {
			continue
		}
		heads, last = append(heads, head), head
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(heads) == 0 {
		head, found, err := headIn(rest.Bytes())
		if err != nil {
			return nil, err
		}
		if found {
			return []Head{head}, nil
		}
		return nil, errors.New("there is no audit head in it: give what `coax audit --json` printed, or a node's log")
	}
	return heads, nil
}

// headMessage is the message of the log lines that have a head. Other lines are skipped,
// because they can contain input such as the name of a browser.
const headMessage = "audit head"

// headIn finds the head in a line of a log, or in a JSON document.
func headIn(text []byte) (head Head, found bool, err error) {
	if !bytes.Contains(text, []byte("digest_mac")) {
		return head, false, nil
	}
	object := bytes.IndexByte(text, '{')
	if object < 0 || bytes.ContainsAny(text[:object], `="`) { // before it, syslog may have written a time and a name
		return headInText(string(text))
	}
	var holder struct {
		Message *string         `json:"msg"`
		Head    json.RawMessage `json:"head"`
		Actions json.RawMessage `json:"actions"`
	}
	text = bytes.TrimSpace(text[object:])
	if json.Unmarshal(text, &holder) != nil || holder.Message != nil && *holder.Message != headMessage {
		return head, false, nil // half a line, the first of several, or another message
	}
	switch {
	case holder.Head != nil:
		text = holder.Head
	case holder.Actions == nil:
		return head, false, nil
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return head, false, fmt.Errorf("the audit head cannot be read: %w", err)
	}
	return head, true, head.check()
}

// headInText reads a line such as … msg="audit head" head.actions=5 head.hash=….
func headInText(line string) (head Head, found bool, err error) {
	fields := textFields(line)
	if fields["msg"] != headMessage {
		return head, false, nil
	}
	head.Hash, head.MAC, head.Day, head.DigestMAC = fields["head.hash"], fields["head.mac"], fields["head.day"], fields["head.digest_mac"]
	head.At, err = time.Parse(time.RFC3339Nano, fields["head.at"])
	for name, number := range map[string]*int64{"head.actions": &head.Actions, "head.digests": &head.Digests} {
		if err == nil {
			*number, err = strconv.ParseInt(fields[name], 10, 64)
		}
	}
	if err != nil {
		return head, false, fmt.Errorf("the audit head cannot be read: %w", err)
	}
	return head, true, head.check()
}

// textFields parses a line of slog's text format. Text inside quotes is a value and never a
// name. The first of several values counts.
func textFields(line string) map[string]string {
	fields := map[string]string{}
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		end := strings.IndexAny(line, " =")
		if end < 0 {
			break
		}
		name, is := line[:end], line[end] == '='
		if line = line[end+1:]; !is {
			continue
		}
		value, _, _ := strings.Cut(line, " ")
		rest := line[len(value):]
		if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] == '"' {
			value, _ = strconv.Unquote(quoted)
			rest = line[len(quoted):]
		}
		if _, twice := fields[name]; !twice {
			fields[name] = value
		}
		line = rest
	}
	return fields
}

// check refuses a head that could not be compared with anything.
func (h Head) check() error {
	for _, code := range []string{h.Hash, h.MAC, h.DigestMAC} {
		if _, err := hex.DecodeString(code); err != nil {
			return fmt.Errorf("the audit head cannot be read: %q is not a hash in hex", code)
		}
	}
	if h.Actions < 0 || h.Digests < 0 || (h.Actions > 0) != (h.Hash != "") || (h.Digests > 0) != (h.DigestMAC != "") {
		return errors.New("the audit head cannot be read: its numbers and hashes do not belong together")
	}
	return nil
}
