package requestlog

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// Query selects calls of an operator; a zero field selects all.
type Query struct {
	Code         fault.Code
	CredentialID int64
	// FromPages selects orders from pages only.
	FromPages      bool
	Address        netip.Addr
	RequestID      string
	IdempotencyKey string
	// From and To bound the time of the call, both included.
	From, To time.Time
	// Refused selects refused calls only.
	Refused bool

	// Limit is how many calls a page has; 50 if zero, and 500 at most.
	Limit int
	// After continues where a page ended: its Next.
	After string
}

// Page is some of the calls that were found, the latest first.
type Page struct {
	Entries []Entry
	// Next continues the search; it is empty at the end of the log.
	Next string
	// SearchedTo is how far back the search went. A search for a rare call may end a page
	// before it is full, instead of reading a whole month.
	SearchedTo time.Time
}

const (
	pageEntries    = 50
	pageEntriesMax = 500
	// readBlocks is how many blocks are read at a time.
	readBlocks = 200
	// searchBlocks is how many blocks one search reads.
	searchBlocks = 10_000
)

// BlockQuery selects blocks of an operator.
type BlockQuery struct {
	OperatorID int64
	// Before selects blocks that end earlier, or end then and have a lower id.
	Before Position
	// Since selects blocks that end then or later.
	Since time.Time
	// Refused selects blocks with a refusal only.
	Refused bool
	Limit   int
}

// Position is a block's position among those of its operator.
type Position struct {
	Until time.Time
	ID    int64
}

// latest is after every block.
var latest = Position{time.UnixMilli(math.MaxInt64 / 2).UTC(), math.MaxInt64}

// Search finds calls of an operator, including those that this node has not written yet.
func (l *Log) Search(ctx context.Context, operatorID int64, q Query) (Page, error) {
	l.reportError(l.Flush(ctx)) // stored calls can be searched all the same
	at, err := q.begin()
	if err != nil {
		return Page{}, err
	}
	limit := min(cmp.Or(max(q.Limit, 0), pageEntries), pageEntriesMax)
	page := Page{}
	for looked := 0; looked < searchBlocks; {
		blocks, err := l.store.RequestBlocks(ctx, BlockQuery{
			OperatorID: operatorID, Before: at.Position, Since: q.From, Refused: q.Refused, Limit: readBlocks,
		})
		if err != nil {
			return Page{}, fmt.Errorf("search the request log: %w", err)
		}
		for _, b := range blocks {
			entries, err := b.unpack()
			if err != nil {
				return Page{}, err
			}
			if at.isInside(b) {
				entries = entries[:min(at.inside, len(entries))]
			}
			for i, e := range slices.Backward(entries) {
				if !q.matches(e) {
					continue
				}
				if len(page.Entries) == limit {
					page.Next = cursor{Position{b.Until, b.ID + 1}, i + 1}.String()
					return page.inOrder(), nil
				}
				page.Entries = append(page.Entries, e)
			}
			at, page.SearchedTo = cursor{Position: Position{b.Until, b.ID}}, b.From
		}
		if looked += len(blocks); len(blocks) < readBlocks {
			page.SearchedTo = q.From
			return page.inOrder(), nil
		}
	}
	page.Next = at.String()
	return page.inOrder(), nil
}

// inOrder puts the calls of blocks that overlap in the order of time.
func (p Page) inOrder() Page {
	slices.SortStableFunc(p.Entries, func(a, b Entry) int { return b.At.Compare(a.At) })
	return p
}

func (q Query) matches(e Entry) bool {
	return (q.Code == "" || e.Code == q.Code) &&
		(q.CredentialID == 0 || e.CredentialID == q.CredentialID) &&
		(!q.FromPages || e.FromPage()) &&
		(!q.Address.IsValid() || e.Address == q.Address) &&
		(q.RequestID == "" || e.RequestID == q.RequestID) &&
		(q.IdempotencyKey == "" || e.IdempotencyKey == q.IdempotencyKey) &&
		(q.From.IsZero() || !e.At.Before(q.From)) &&
		(q.To.IsZero() || !e.At.After(q.To)) &&
		(!q.Refused || e.Refused())
}

// begin returns where a search begins: where the last page ended, or at the latest block
// that can have a call at q.To.
func (q Query) begin() (cursor, error) {
	switch {
	case q.After != "":
		return readCursor(q.After)
	case !q.To.IsZero():
		return cursor{Position: Position{q.To.Add(blockSpan), math.MaxInt64}}, nil
	}
	return cursor{Position: latest}, nil
}

// cursor is where a page ended. If inside is not zero, the page ended in the middle of the
// block right before the position, and inside calls of it are left.
type cursor struct {
	Position
	inside int
}

// isInside reports whether the last page ended in the middle of b. That block may have been
// purged since.
func (c cursor) isInside(b Block) bool {
	return c.inside != 0 && b.ID == c.ID-1 && b.Until.Equal(c.Until)
}

func (c cursor) String() string {
	return fmt.Sprintf("%d.%d.%d", c.Until.UnixMilli(), c.ID, c.inside)
}

func readCursor(text string) (cursor, error) {
	var numbers [3]int64
	parts := strings.Split(text, ".")
	if len(parts) != len(numbers) {
		return cursor{}, fmt.Errorf("%w: %q is no page of the request log", ErrNotFound, text)
	}
	for i, part := range parts {
		number, err := strconv.ParseInt(part, 10, 64)
		if err != nil || number < 0 {
			return cursor{}, fmt.Errorf("%w: %q is no page of the request log", ErrNotFound, text)
		}
		numbers[i] = number
	}
	return cursor{Position{time.UnixMilli(numbers[0]).UTC(), numbers[1]}, int(min(numbers[2], blockBytes))}, nil
}
