package server

import (
	"slices"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/provider/gateway"
)

// maxRecentCalls is how many provider calls a node keeps for the health page.
const maxRecentCalls = 8

// recentCalls are the outcomes of this node's last provider calls.
type recentCalls struct {
	now func() time.Time

	mu   sync.Mutex
	last []admin.ProviderAnswer // newest first
}

func (r *recentCalls) add(o gateway.Observation) {
	call := admin.ProviderAnswer{At: r.now(), What: o.What, Cause: string(o.Cause), Answered: o.Cause == gateway.Answered}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = slices.Insert(r.last, 0, call)
	r.last = r.last[:min(len(r.last), maxRecentCalls)]
}

func (r *recentCalls) list() []admin.ProviderAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.last)
}
