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
// that was exported at a head contains it for ever, unless it was cut back or rewritten.
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

// compareActionHeads compares the heads that end with an action with it.
func (a *auditor) compareActionHeads(c *signedChain, act *act) {
	for _, head := range a.actionHeads[act.id] {
		switch {
		case head.Hash != hex.EncodeToString(act.hash):
			a.cutBack(head.At, "staff action %d has the hash %s; expected %s", act.id, short(act.hash), ellipsis(head.Hash))
		case head.MAC != "" && head.MAC != hex.EncodeToString(c.macOf(act)):
			a.cutBack(head.At, "staff action %d has the MAC %s; expected %s", act.id, short(c.macOf(act)), ellipsis(head.MAC))
		}
	}
	delete(a.actionHeads, act.id)
}

func (a *auditor) compareDigestHeads(d *digest) {
	for _, head := range a.digestHeads[d.number] {
		if head.DigestMAC != hex.EncodeToString(d.mac) {
			a.cutBack(head.At, "ledger digest %d has the MAC %s; expected %s", d.number, short(d.mac), ellipsis(head.DigestMAC))
		}
	}
	delete(a.digestHeads, d.number)
}

func (a *auditor) cutBack(at time.Time, format string, args ...any) {
	a.found("H1", "head of "+at.In(india).Format(time.DateTime), "the store was cut back or rewritten since: "+format, args...)
}

func ellipsis(text string) string {
	if len(text) > 12 {
		text = text[:12]
	}
	return text + "…"
}

// keepHeads orders the heads that a store is compared with.
func (a *auditor) keepHeads(heads []Head) {
	a.actionHeads, a.digestHeads = map[int64][]Head{}, map[int64][]Head{}
	for _, head := range heads {
		a.actionHeads[head.Actions] = append(a.actionHeads[head.Actions], head)
		a.digestHeads[head.Digests] = append(a.digestHeads[head.Digests], head)
	}
	a.report.Compared = len(heads)
}

// sortedHeads are the heads that were not met, by their number.
func sortedHeads(heads map[int64][]Head) (sorted [][]Head) {
	for _, number := range slices.Sorted(maps.Keys(heads)) {
		sorted = append(sorted, heads[number])
	}
	return sorted
}

// longestHeadLine bounds a line of a file with heads.
const longestHeadLine = 64 << 20

// ReadHeads reads every head in a file: what `coax audit --json` printed, or the log of a
// node, as JSON or as text. Lines without a head are passed over. Equal heads are
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

// headIn finds the head in a line of a log, or in a JSON document.
func headIn(text []byte) (head Head, found bool, err error) {
	if !bytes.Contains(text, []byte("digest_mac")) {
		return head, false, nil
	}
	if text = bytes.TrimSpace(text); !bytes.HasPrefix(text, []byte("{")) {
		return headInText(string(text))
	}
	var holder struct {
		Head json.RawMessage `json:"head"`
	}
	if json.Unmarshal(text, &holder) != nil {
		return head, false, nil // half a line, or the first of several
	}
	if holder.Head != nil {
		text = holder.Head
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return head, false, fmt.Errorf("the audit head cannot be read: %w", err)
	}
	return head, true, head.check()
}

// headInText reads a line such as … head.actions=5 head.hash=….
func headInText(line string) (head Head, found bool, err error) {
	var bad error
	for _, field := range strings.Fields(line) {
		name, value, _ := strings.Cut(field, "=")
		value = strings.Trim(value, `"`)
		var err error
		switch name {
		case "head.at":
			head.At, err = time.Parse(time.RFC3339Nano, value)
		case "head.actions":
			head.Actions, err = strconv.ParseInt(value, 10, 64)
			found = true
		case "head.hash":
			head.Hash = value
		case "head.mac":
			head.MAC = value
		case "head.digests":
			head.Digests, err = strconv.ParseInt(value, 10, 64)
		case "head.day":
			head.Day = value
		case "head.digest_mac":
			head.DigestMAC = value
		}
		bad = errors.Join(bad, err)
	}
	if !found {
		return head, false, nil
	}
	if bad != nil {
		return head, false, fmt.Errorf("the audit head cannot be read: %w", bad)
	}
	return head, true, head.check()
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
