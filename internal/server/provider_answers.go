package server

import (
	"slices"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/provider/gateway"
)

// answersKept is how many of the provider's last answers a node remembers, for
// people to see.
const answersKept = 8

// answers are how the provider's last calls from this node went.
type answers struct {
	now func() time.Time

	mu   sync.Mutex
	last []admin.ProviderAnswer // newest first
}

func (a *answers) heard(o gateway.Observation) {
	answer := admin.ProviderAnswer{At: a.now(), What: o.What, Cause: string(o.Cause), Answered: o.Cause == gateway.Answered}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = slices.Insert(a.last, 0, answer)
	a.last = a.last[:min(len(a.last), answersKept)]
}

func (a *answers) recent() []admin.ProviderAnswer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.last)
}
