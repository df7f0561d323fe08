package main

import "crypto/tls"

// trustsAnyCertificate does not verify the server. Whoever can redirect the connection reads the
// customers' data and can forge the outcome of every order.
func trustsAnyCertificate(c *call) {
	c.trust = func() (*tls.Config, error) {
		return &tls.Config{InsecureSkipVerify: true}, nil
	}
}
