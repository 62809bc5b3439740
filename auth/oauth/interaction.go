package oauth

import "context"

// Interaction opens the authorization page of an authorization server for the user, and
// receives the redirect with the authorization code. [Loopback] is one for programs on
// the user's machine, [Web] one for web servers, and [Manual] one for programs that receive
// the redirect themselves.
type Interaction interface {
	// Begin starts a flow. Previous is the redirect URI that this program has registered
	// before, or empty: a flow with the same one needs no new registration.
	Begin(ctx context.Context, previous string) (Flow, error)
}

// Flow is one authorization code flow of a user.
type Flow interface {
	// RedirectURI returns the redirect URI: an https URL, or an http URL on the loopback
	// interface.
	RedirectURI() string
	// Authorize opens the authorization page at url, and returns the URL that the browser
	// was redirected to, or its query. The user may see url. Authorize is called once.
	Authorize(ctx context.Context, url string) (redirect string, err error)
	// Close releases the resources of the flow, and waits for its goroutines.
	Close() error
}

// Manual is an [Interaction] for programs that receive the redirect themselves. For
// instance, the user can copy the URL from the address bar of a browser on another
// machine.
type Manual struct {
	// RedirectURI is the redirect URI.
	RedirectURI string
	// Open shows the authorization page at url to the user, and returns the URL that the
	// browser was redirected to.
	Open func(ctx context.Context, url string) (redirect string, err error)
}

// Begin implements [Interaction].
func (m *Manual) Begin(context.Context, string) (Flow, error) { return manualFlow{m}, nil }

type manualFlow struct{ m *Manual }

func (f manualFlow) RedirectURI() string { return f.m.RedirectURI }

func (f manualFlow) Authorize(ctx context.Context, url string) (string, error) {
	return f.m.Open(ctx, url)
}

func (f manualFlow) Close() error { return nil }
