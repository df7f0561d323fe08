package requestlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// ErrNotFound is returned for a call, or a page, that is not in an operator's log.
var ErrNotFound = errors.New("it is not in the request log")

// entryID identifies a call by its block and its position there.
func entryID(block int64, position int) string { return fmt.Sprintf("%d-%d", block, position) }

// Entry finds one call of an operator by its ID.
func (l *Log) Entry(ctx context.Context, operatorID int64, id string) (Entry, error) {
	first, second, _ := strings.Cut(id, "-")
	number, err := strconv.ParseInt(first, 10, 64)
	position, err2 := strconv.Atoi(second)
	if err != nil || err2 != nil || position < 0 {
		return Entry{}, fmt.Errorf("%w: %q names no call", ErrNotFound, id)
	}
	block, found, err := l.store.RequestBlock(ctx, operatorID, number)
	if err != nil {
		return Entry{}, fmt.Errorf("read the request log: %w", err)
	}
	if !found {
		return Entry{}, ErrNotFound
	}
	entries, err := block.unpack()
	if err != nil {
		return Entry{}, err
	}
	if position >= len(entries) {
		return Entry{}, ErrNotFound
	}
	return entries[position], nil
}

// LastUse returns when each of an operator's keys last signed a call, to the minute.
// A key that is missing was not used since the log was turned on.
func (l *Log) LastUse(ctx context.Context, operatorID int64) (map[int64]time.Time, error) {
	l.reportError(l.Flush(ctx))
	uses, err := l.store.LastKeyUses(ctx, operatorID)
	if err != nil {
		return nil, fmt.Errorf("read the last uses of keys: %w", err)
	}
	return uses, nil
}

// AddressCalls is an address that calls came from.
type AddressCalls struct {
	Address netip.Addr
	Calls   int
	First   time.Time
	Last    time.Time
}

// RefusedAddress is an address that the whitelist did not let in.
type RefusedAddress = AddressCalls

// KeyAddresses are the addresses that calls signed with one of an operator's keys came
// from since a moment, the latest first, granted or refused. cut is set if there were so
// many calls that only the latest were counted.
func (l *Log) KeyAddresses(ctx context.Context, operatorID, credentialID int64, since time.Time) (used []AddressCalls, cut bool, err error) {
	return l.addresses(ctx, operatorID, Query{CredentialID: credentialID, From: since})
}

// RefusedAddresses are the addresses from which calls of an operator were refused
// by its whitelist since a moment, the latest first. If there are very many such calls, only
// the latest are counted.
func (l *Log) RefusedAddresses(ctx context.Context, operatorID int64, since time.Time) ([]RefusedAddress, error) {
	refused, _, err := l.addresses(ctx, operatorID, Query{Code: fault.IPNotWhitelisted, Refused: true, From: since})
	return refused, err
}

// addresses counts the calls that a query finds by their address.
func (l *Log) addresses(ctx context.Context, operatorID int64, q Query) (all []AddressCalls, cut bool, err error) {
	byAddress := map[netip.Addr]*AddressCalls{}
	q.Limit = pageEntriesMax
	for range addressPages {
		page, err := l.Search(ctx, operatorID, q)
		if err != nil {
			return nil, false, err
		}
		for _, e := range page.Entries {
			known := byAddress[e.Address]
			if known == nil {
				known = &AddressCalls{Address: e.Address, First: e.At, Last: e.At}
				byAddress[e.Address] = known
			}
			known.Calls++
			if e.At.Before(known.First) {
				known.First = e.At
			}
			if e.At.After(known.Last) {
				known.Last = e.At
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	all = []AddressCalls{}
	for _, one := range byAddress {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b AddressCalls) int {
		return cmp.Or(b.Last.Compare(a.Last), a.Address.Compare(b.Address))
	})
	return all, q.After != "", nil
}

// addressPages is how many pages of the log are searched for addresses.
const addressPages = 10
