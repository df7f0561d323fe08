package access

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/coaxhq/coax/signing"
)

// cacheSize limits the cache. Only existing keys get in, so guesses cannot fill it.
const cacheSize = 10_000

// apiKey is a key's record with its secret opened. The zero apiKey is a key that does not exist.
type apiKey struct {
	record Record
	signer *signing.Key
	// openErr is why the secret could not be opened. It is reported by the check that needs
	// the secret, so that a revoked key is reported as revoked all the same.
	openErr error
	// fresh: read during this request, not taken from the cache.
	fresh bool
}

func (k apiKey) exists() bool { return k.record.Credential.ID != 0 }

// readKey reads the current record of a key. A malformed key does not exist.
func (a *Authorizer) readKey(ctx context.Context, c claim) (apiKey, error) {
	if !wellFormedKey(c.key) {
		return apiKey{fresh: true}, nil
	}
	record, found, err := a.store.CredentialByHash(ctx, c.hash)
	if err != nil {
		return apiKey{}, unavailable(fmt.Errorf("read the key of request %s: %w", c.req.ID, err))
	}
	if !found {
		record = Record{}
	}
	return a.cacheRecord(c.hash, record), nil
}

// cacheRecord opens the secret of a record that was just read, and caches it. A key that does not
// exist is not cached: it may be issued the next moment, and guesses could fill the cache.
func (a *Authorizer) cacheRecord(hash KeyHash, record Record) apiKey {
	key := apiKey{record: record, fresh: true}
	if !key.exists() {
		a.cache.remove(hash)
		return key
	}

	credential := record.Credential
	if cached, found := a.cache.get(hash); found && sameSecret(cached.record.Credential, credential) {
		key.signer = cached.signer
	} else {
		var secret Secret
		secret, key.openErr = a.vault.Open(credential.SealedSecret, credential.OperatorID, hash)
		key.signer = signing.NewKey(secret.Reveal())
	}
	if key.openErr == nil {
		a.cache.put(hash, key)
	}
	return key
}

// sameSecret reports whether two versions of a credential have the same sealed secret, so that it
// need not be opened again: mostly the account changes, not the key.
func sameSecret(a, b Credential) bool {
	return a.OperatorID == b.OperatorID && bytes.Equal(a.SealedSecret, b.SealedSecret)
}

// cache holds keys between requests. They may be out of date.
type cache struct {
	capacity int

	mu   sync.RWMutex
	keys map[KeyHash]apiKey
}

func newCache() *cache {
	return &cache{capacity: cacheSize, keys: map[KeyHash]apiKey{}}
}

func (c *cache) get(hash KeyHash) (apiKey, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key, found := c.keys[hash]
	return key, found
}

// put evicts an arbitrary key if the cache is full. Evicting the least recently used one would
// cost every request a write, to save a few of them a read.
func (c *cache) put(hash KeyHash, key apiKey) {
	key.fresh = false
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.keys[hash]; !found && len(c.keys) >= c.capacity {
		for other := range c.keys {
			delete(c.keys, other)
			break
		}
	}
	c.keys[hash] = key
}

func (c *cache) remove(hash KeyHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keys, hash)
}
