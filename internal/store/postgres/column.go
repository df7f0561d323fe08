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

// possibleText returns nil, which is NULL, for an empty string.
func possibleText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// possibleMillis returns Unix milliseconds, or nil, which is NULL, for the zero time.
func possibleMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
