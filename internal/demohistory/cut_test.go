package demohistory

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

var errDead = errors.New("this process is no more")

// cutting is a provider during whose so many'th order the process that asks ends.
type cutting struct {
	operation.Provider
	orders int
	sent   atomic.Int64
	cut    func()
}

func (c *cutting) Apply(ctx context.Context, order operation.Order) operation.Reply {
	answer := c.Provider.Apply(ctx, order)
	if c.sent.Add(1) == int64(c.orders) {
		c.cut()
	}
	return answer
}

// dying is a store as a process that has ended sees it: not at all.
type dying struct {
	*sqlite.DB
	dead context.Context
}

func (d *dying) Settle(ctx context.Context, s operation.Settlement) (operation.Operation, bool, error) {
	if d.dead.Err() != nil {
		return operation.Operation{}, false, errDead
	}
	return d.DB.Settle(ctx, s)
}
