package main

// retriesRefusals sends a request that was refused four times more, unchanged. No refusal goes
// away by that, the calls count against the rate, and each 401 towards a lockout of the address.
func retriesRefusals(c *call) {
	decide := c.next
	c.next = func(a answer) step {
		next := decide(a)
		if next == refused && a.body != nil && a.status/100 == 4 && c.posts < 5 && !c.following {
			return again
		}
		return next
	}
}
