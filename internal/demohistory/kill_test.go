package demohistory

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

var errDead = errors.New("this process has ended")

// killingProvider is a provider that ends the calling process during its Nth order.
type killingProvider struct {
	operation.Provider
	orders int
	sent   atomic.Int64
	cut    func()
}

func (c *killingProvider) Apply(ctx context.Context, order operation.Order) operation.Reply {
	reply := c.Provider.Apply(ctx, order)
	if c.sent.Add(1) == int64(c.orders) {
		c.cut()
	}
	return reply
}

// killedStore is a store that settles nothing more once its process has ended.
type killedStore struct {
	*sqlite.DB
	dead context.Context
}

func (d *killedStore) Settle(ctx context.Context, s operation.Settlement) (operation.Operation, bool, error) {
	if d.dead.Err() != nil {
		return operation.Operation{}, false, errDead
	}
	return d.DB.Settle(ctx, s)
}
