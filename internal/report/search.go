package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// SearchResult is what one text finds among subscribers and transactions.
type SearchResult struct {
	Subscribers []FoundSubscriber
	// MoreSubscribers: there are others.
	MoreSubscribers bool
	// Transactions have the text as their id, idempotency key, receipt number or the reference of
	// their reversal. If one subscriber was found and no transaction, they are the subscriber's
	// latest.
	Transactions []operation.Operation
	// MoreTransactions: other operators have one with this receipt number, too.
	MoreTransactions bool
	// Named: the transactions were found by the text.
	Named bool
	// MaybeProviders: nothing was found, and the text can be a provider's transaction, for which
	// ProviderTransaction looks.
	MaybeProviders bool
}

// FoundSubscriber is a subscriber with its operator.
type FoundSubscriber struct {
	Subscriber
	OperatorID int64
	// Exact: the text is the subscriber's id or mobile.
	Exact bool
}

// operatorsSearched is how many operators are looked at for a search over all of them, of
// those who have a subscriber with the first word.
const operatorsSearched = 50

// SearchText is a text as it can be looked for: a mobile number in digits, without control
// characters.
func SearchText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	if mobile, ok := subscription.ReadMobile(text); ok {
		return mobile
	}
	return strings.TrimSpace(text)
}

// Search finds at most limit subscribers and limit transactions of an operator.
func (svc *Service) Search(ctx context.Context, operatorID int64, text string, limit int) (SearchResult, error) {
	return svc.search(ctx, operatorID, SearchText(text), limit, func(f SubscriberFilter) ([]FoundSubscriber, bool, error) {
		return svc.subscribersOf(ctx, operatorID, f)
	})
}

// SearchAll finds at most limit subscribers and limit transactions of all operators. It is
// for staff.
func (svc *Service) SearchAll(ctx context.Context, text string, limit int) (SearchResult, error) {
	return svc.search(ctx, 0, SearchText(text), limit, func(f SubscriberFilter) (found []FoundSubscriber, more bool, err error) {
		terms := Terms(f.Search)
		operators, err := svc.store.OperatorsWithTerm(ctx, terms[0], operatorsSearched)
		if err != nil {
			return nil, false, fmt.Errorf("find the operators with a subscriber %q: %w", terms[0], err)
		}
		for _, operatorID := range operators {
			some, others, err := svc.subscribersOf(ctx, operatorID, f)
			if err != nil {
				return nil, false, err
			}
			found, more = append(found, some...), more || others
			if len(found) > limit {
				return found[:limit], true, nil
			}
		}
		return found, more || len(operators) == operatorsSearched, nil
	})
}

func (svc *Service) subscribersOf(ctx context.Context, operatorID int64, f SubscriberFilter) (found []FoundSubscriber, more bool, err error) {
	page, err := svc.Subscribers(ctx, operatorID, f)
	for _, s := range page.Rows {
		found = append(found, FoundSubscriber{s, operatorID, s.ID == f.Search || s.Mobile == f.Search})
	}
	return found, page.Next != "", err
}

// search finds an operator's transactions, or those of all if the operator is zero, and the
// subscribers that a function reads.
func (svc *Service) search(ctx context.Context, operatorID int64, text string, limit int, subscribers func(SubscriberFilter) ([]FoundSubscriber, bool, error)) (SearchResult, error) {
	var r SearchResult
	if len(Terms(text)) == 0 {
		return r, nil // without a word, every subscriber would be listed
	}
	var err error
	if r.Subscribers, r.MoreSubscribers, err = subscribers(SubscriberFilter{Search: text, Limit: limit}); err != nil {
		return r, err
	}
	id := text
	if strings.HasPrefix(id, "cx") {
		id = strings.ToUpper(id) // an idempotency key is as its caller has written it
	}
	if r.Transactions, err = svc.store.OperationsNamed(ctx, operatorID, id, text, limit); err != nil {
		return r, fmt.Errorf("find transaction %q: %w", text, err)
	}
	receipt, isReceipt := subscription.ReadReceiptNumber(text)
	reversal := strings.ToUpper(text)
	var others []operation.Operation
	switch {
	case isReceipt:
		if others, err = svc.store.OperationsWithReceipt(ctx, operatorID, receipt, limit+1); err != nil {
			return r, fmt.Errorf("find receipt %s: %w", receipt, err)
		}
		r.MoreTransactions = len(others) > limit
	case strings.HasPrefix(reversal, operation.ReversalPrefix):
		if others, err = svc.store.OperationsReversedBy(ctx, operatorID, reversal); err != nil {
			return r, fmt.Errorf("find reversal %q: %w", text, err)
		}
	}
	r.Transactions = append(r.Transactions, others...)
	r.MaybeProviders = len(r.Subscribers) == 0 && len(r.Transactions) == 0 && !isReceipt && isReference(text)
	r.Named = len(r.Transactions) > 0
	if !r.Named && len(r.Subscribers) == 1 {
		one := r.Subscribers[0]
		if r.Transactions, err = svc.store.SubscriberTimeline(ctx, one.OperatorID, one.ID); err != nil {
			return r, fmt.Errorf("read the timeline of subscriber %s: %w", one.ID, err)
		}
	}
	slices.SortStableFunc(r.Transactions, func(a, b operation.Operation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	r.Transactions = r.Transactions[:min(len(r.Transactions), limit)]
	return r, nil
}

// isReference reports whether a text can be a provider's transaction: a long word with a digit.
func isReference(text string) bool {
	const shortest = 6
	return len(text) >= shortest && strings.ContainsAny(text, "0123456789") && !strings.ContainsFunc(text, unicode.IsSpace)
}

// ProviderTransaction looks for a provider's transaction, of an operator or of all if the operator is
// zero. It looks through the latest operations, back to searchedTo if not to the beginning: no
// index has the provider's transactions, which every settlement would have to maintain.
func (svc *Service) ProviderTransaction(ctx context.Context, operatorID int64, id string, limit int) (found []operation.Operation, searchedTo time.Time, err error) {
	id = SearchText(id)
	q := OperationQuery{OperatorID: operatorID, AllOperators: operatorID == 0, ProviderTransaction: id, Limit: limit}
	scan := svc.scanLimit
	if q.AllOperators {
		scan = (scan + 1) / 2 // these rows are scattered, and take twice as long to read
	}
	last, cut, err := svc.store.OperationAtOffset(ctx, q, scan)
	if err != nil {
		return nil, searchedTo, fmt.Errorf("find provider transaction %q: %w", id, err)
	}
	if cut {
		q.Last, searchedTo = last, time.UnixMilli(last.Number).UTC()
	}
	if found, err = svc.store.PageOperations(ctx, q); err != nil {
		return nil, searchedTo, fmt.Errorf("find provider transaction %q: %w", id, err)
	}
	return found, searchedTo, nil
}
