package main

import "fmt"

// newKeyOnRetry gives an attempt a new key if the one before it got no answer. If that one was
// carried out, the customer's operation is carried out and charged twice.
func newKeyOnRetry(c *call) {
	c.key = func() string {
		if c.unanswered == 0 {
			return c.Key
		}
		return fmt.Sprintf("%s-%d", c.Key, c.unanswered+1)
	}
}
