package access

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/coaxhq/coax/signing"
)

// cacheSize bounds the cache. Only keys that exist get in, so a stranger cannot
// fill it.
const cacheSize = 10_000

// subject is a key's record with its secret opened and made ready to verify
// with. The zero subject is a key that nobody has.
type subject struct {
	record Record
	signer *signing.Key
	// openErr is why the secret could not be opened. It waits for the step
	// that needs the secret: a revoked key is revoked all the same.
	openErr error
	// fresh: read during this request, not remembered from an earlier one.
	fresh bool
}

func (s subject) known() bool { return s.record.Credential.ID != 0 }

// read gets a key's record as it stands now. A malformed key needs no look: it
// is nobody's.
func (g *Authorizer) read(ctx context.Context, c claim) (subject, error) {
	if !wellFormedKey(c.key) {
		return subject{fresh: true}, nil
	}
	record, found, err := g.store.CredentialByHash(ctx, c.hash)
	if err != nil {
		return subject{}, unavailable(fmt.Errorf("read the key of request %s: %w", c.req.ID, err))
	}
	if !found {
		record = Record{}
	}
	return g.remember(c.hash, record), nil
}

// remember keeps a record that was just read, its secret opened, for the
// requests to come. That a key is nobody's is not remembered: it may be issued
// the next moment, and a stranger could fill the cache with guesses.
func (g *Authorizer) remember(hash KeyHash, record Record) subject {
	who := subject{record: record, fresh: true}
	if !who.known() {
		g.cache.forget(hash)
		return who
	}

	key := record.Credential
	if before, found := g.cache.recall(hash); found && sameSeal(before.record.Credential, key) {
		who.signer = before.signer
	} else {
		var secret Secret
		secret, who.openErr = g.vault.Open(key.SealedSecret, key.OperatorID, hash)
		who.signer = signing.NewKey(secret.Reveal())
	}
	if who.openErr == nil {
		g.cache.keep(hash, who)
	}
	return who
}

// sameSeal reports whether opening b's secret would do again what was done for
// a: mostly it is the account that changes, not the key.
func sameSeal(a, b Credential) bool {
	return a.OperatorID == b.OperatorID && bytes.Equal(a.SealedSecret, b.SealedSecret)
}

// cache remembers subjects between requests. What it holds may be out of date;
// its readers know.
type cache struct {
	capacity int

	mu       sync.RWMutex
	subjects map[KeyHash]subject
}

func newCache() *cache {
	return &cache{capacity: cacheSize, subjects: map[KeyHash]subject{}}
}

func (c *cache) recall(hash KeyHash) (subject, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	who, found := c.subjects[hash]
	return who, found
}

// keep makes room, where there is none, by dropping whatever the map yields
// first. To keep count of who was used last would cost every request a write,
// to spare a few of them a read.
func (c *cache) keep(hash KeyHash, who subject) {
	who.fresh = false
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.subjects[hash]; !found && len(c.subjects) >= c.capacity {
		for other := range c.subjects {
			delete(c.subjects, other)
			break
		}
	}
	c.subjects[hash] = who
}

func (c *cache) forget(hash KeyHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subjects, hash)
}
