package access

import "context"

type authenticatedKey struct{}

// OnAuthenticated returns a context for the requests of one connection, on which Authenticated
// calls done. A listener learns from it which connections to keep when it has too many.
func OnAuthenticated(ctx context.Context, done func()) context.Context {
	return context.WithValue(ctx, authenticatedKey{}, done)
}

// Authenticated reports to the listener, if there is one, that this connection carried an
// authenticated request: a signed call that was admitted, or a page of a live session.
func Authenticated(ctx context.Context) {
	if done, found := ctx.Value(authenticatedKey{}).(func()); found {
		done()
	}
}
