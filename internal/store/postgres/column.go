package postgres

import "time"

// column returns one value of each item.
func column[From, To any](all []From, of func(From) To) []To {
	values := make([]To, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	return values
}

// nullString returns nil, which is NULL, for an empty string.
func nullString(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// nullMillis returns Unix milliseconds, or nil, which is NULL, for the zero time.
func nullMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
