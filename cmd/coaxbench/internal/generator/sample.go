package generator

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

// Sample reads one balance and returns the answer as it came, for a baseline that
// is to answer with the same bytes. The date is left out: every server writes its
// own.
func Sample(ctx context.Context, target Target, account *Account) (header map[string]string, body []byte, err error) {
	c := conn{target: target}
	if err := c.open(ctx); err != nil {
		return nil, nil, err
	}
	defer c.close()
	a, err := c.exchange(newScribe(target.Addr).write(shot{account: account, method: http.MethodGet, path: "/api/v1/balance"}, time.Now()))
	if err != nil {
		return nil, nil, fmt.Errorf("read a balance: %w", err)
	}
	if code, err := a.code(); err != nil || a.status != http.StatusOK || code != "OK" {
		return nil, nil, fmt.Errorf("read a balance: %d %s (%w)", a.status, a.body, err)
	}
	header = map[string]string{}
	for i, line := range bytes.Split(a.head, []byte("\r\n")) {
		if name, value, found := bytes.Cut(line, []byte(": ")); i > 0 && found && string(name) != "Date" {
			header[string(name)] = string(value)
		}
	}
	return header, bytes.Clone(a.body), nil
}
