package access

import "context"

type authenticatedKey struct{}

// OnAuthenticated returns a context for the requests of one connection. Authenticated then
// calls done, so that a listener learns which connections to keep when room is short without
// knowing how requests authenticate.
func OnAuthenticated(ctx context.Context, done func()) context.Context {
	return context.WithValue(ctx, authenticatedKey{}, done)
}

// Authenticated tells the listener that the connection of this request has carried an
// authenticated one: a signed call that was admitted, or a visit in a live session. Without
// a listener that asked it does nothing.
func Authenticated(ctx context.Context) {
	if done, asked := ctx.Value(authenticatedKey{}).(func()); asked {
		done()
	}
}
