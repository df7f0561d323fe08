package simulator

import "net/http"

// kindReversal is the kind of a reversal: an order to undo one or two others.
const kindReversal = "reverse"

// reverse handles reversals. They have the outcomes of orders.
func (s *Simulator) reverse(w http.ResponseWriter, r *http.Request) {
	if s.settings.cannotReverse() {
		http.NotFound(w, r)
		return
	}
	if requested, ok := readRequest(w, r); ok {
		requested.Component = ""
		s.order(w, r, requested, kindReversal)
	}
}

// undone returns the orders that a reversal undoes.
func (o order) undone() []string {
	if o.ReversesAddon == "" {
		return []string{o.Reverses}
	}
	return []string{o.Reverses, o.ReversesAddon}
}

// beginReversal marks the orders of a reversal as undone, all or none, or says why they cannot
// be. It is called with the lock held.
func (b *book) beginReversal(reversal order) (why string) {
	for _, reference := range reversal.undone() {
		has, found := b.orders[reference]
		switch {
		case !found || has.State != applied || has.Kind == kindPassword || has.Kind == kindReversal:
			return "There is nothing to undo under " + reference + "."
		case has.SubscriberID != reversal.SubscriberID || has.Mobile != reversal.Mobile:
			return "The order " + reference + " is another customer's."
		case has.ReversedBy != "":
			return "The order " + reference + " was undone already."
		}
	}
	b.markReversed(reversal, reversal.Reference)
	return ""
}

// markReversed marks the orders of a reversal; by is empty if it was not carried out after all.
func (b *book) markReversed(reversal order, by string) {
	if reversal.Kind != kindReversal {
		return
	}
	for _, reference := range reversal.undone() {
		if has, found := b.orders[reference]; found {
			has.ReversedBy = by
		}
	}
}

// reversedBy returns the reversal that was carried out for an order; empty if none was. It is called
// with the lock held.
func (b *book) reversedBy(reference string) string {
	has := b.orders[reference]
	if has == nil {
		return ""
	}
	if reversal := b.orders[has.ReversedBy]; reversal == nil || reversal.State != applied {
		return "" // its decision may be in flight
	}
	return has.ReversedBy
}

func (s *settings) cannotReverse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reversalsMissing
}
