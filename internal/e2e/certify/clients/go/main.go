// Command go is a client of the API as an integrator might write it: without the SDK, with
// the standard library only. It carries out the orders on its standard input, one JSON
// object a line, and prints what became of each. The tests of coax certify run it.
//
//	go [FAULT [STATE_FILE]]
//
// Without a fault it is correct. With one it makes that mistake, and no other.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"log"
	"os"
	"sync"
)

const maxOrders = 16 // at once

var faults = map[string]func(*call){
	"new-key-on-retry":       newKeyOnRetry,
	"pending-is-success":     pendingIsSuccess,
	"retries-refusals":       retriesRefusals,
	"reuses-nonce":           reusesNonce,
	"trusts-any-certificate": trustsAnyCertificate,
}

func main() {
	log.SetFlags(0)
	fault := func(*call) {}
	if len(os.Args) > 1 {
		var known bool
		if fault, known = faults[os.Args[1]]; !known {
			log.Printf("unknown fault %q", os.Args[1])
			os.Exit(2)
		}
	}
	var (
		open   sync.WaitGroup
		slots  = make(chan struct{}, maxOrders)
		output sync.Mutex
		lines  = bufio.NewReader(os.Stdin)
	)
	for end := error(nil); end == nil; {
		var line []byte
		line, end = lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var o order
		if err := json.Unmarshal(line, &o); err != nil {
			log.Printf("not an order: %v", err)
			continue
		}
		slots <- struct{}{}
		open.Go(func() {
			defer func() { <-slots }()
			text, _ := json.Marshal(newCall(o, fault).run())
			output.Lock()
			defer output.Unlock()
			os.Stdout.Write(append(text, '\n'))
		})
	}
	open.Wait()
}
