package sim

// observer is notified of everything that clients and staff send and receive. In fake
// time it is the model, which checks each step at once; in real time it is a record,
// which is checked at the end.
type observer interface {
	// begin and answered are called before and after a request is handled.
	begin(*flight)
	answered(*flight, answer)
	// excuse is called when a fault is injected into a task of a request.
	excuse(task string)
	// died is called when a process has ended.
	died(*process)
	// toppedUp is called when staff were told that a wallet was credited.
	toppedUp(operator int64, reference string, amount int64)
	// operationOf returns the id of a key's operation; empty if there is none.
	operationOf(key string) string
	// inReview returns the id of an operation in review; empty if there is none.
	inReview() string
}

var _ observer = (*model)(nil)

func (m *model) toppedUp(operator int64, reference string, amount int64) {
	if got := m.topUps[keyOf(operator, reference)]; got != amount {
		m.violate("M8", reference, "a top-up of %d paise, sent until it was confirmed, credited %d", amount, got)
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
