package sim

// witness is told of everything that clients and staff do and hear, and what it
// knows of the store. In fake time that is the model, which judges each step as
// it is made; in real time it is a record, which is judged when all is over.
type observer interface {
	// begin and answered stand around a request at its node.
	begin(*flight)
	answered(*flight, answer)
	// excuse: a fault met the request that a task belongs to.
	excuse(task string)
	// died: a process is no more.
	died(*process)
	// toppedUp: staff were told that a wallet was credited.
	toppedUp(operator int64, reference string, amount int64)
	// operationOf is the id of the operation that has a key; empty if none has.
	operationOf(key string) string
	// inReview is the id of an operation that waits for a person; empty if none
	// does.
	inReview() string
}

var _ observer = (*model)(nil)

func (m *model) toppedUp(operator int64, reference string, amount int64) {
	if got := m.topUps[keyOf(operator, reference)]; got != amount {
		m.violate("M8", reference, "a top-up of %d paise, sent until it was heard, credited %d", amount, got)
	}
}

func (m *model) operationOf(key string) string {
	for _, id := range keys(m.operations) {
		if m.operations[id].Key == key {
			return id
		}
	}
	return ""
}

func (m *model) inReview() string {
	for _, id := range keys(m.operations) {
		if m.operations[id].state == "needs_review" {
			return id
		}
	}
	return ""
}
