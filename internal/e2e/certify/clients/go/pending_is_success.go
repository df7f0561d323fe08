package main

import "net/http"

// pendingIsSuccess takes 202 for success. The customer is told that the order was carried out, and
// nothing corrects that when the operation fails in the end and is refunded.
func pendingIsSuccess(c *call) {
	decide := c.next
	c.next = func(a answer) step {
		if a.body != nil && a.status == http.StatusAccepted {
			return succeeded
		}
		return decide(a)
	}
}
