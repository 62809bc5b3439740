package oauth

import "context"

// Interaction is how a user gets to an authorization server and how the answer gets
// back. [Loopback] is one, [ByHand] another.
type Interaction interface {
	// Begin prepares to take an answer. Previous is the redirect URI that the
	// authorization server knows already, or empty: taking it again spares the client
	// another registration.
	Begin(ctx context.Context, previous string) (Visit, error)
}

// Visit is one visit of a user to an authorization server.
type Visit interface {
	// RedirectURI is where the answer is expected: an https URL, or an http URL of this
	// machine.
	RedirectURI() string
	// Authorize takes the user to url, and returns the URL that they were sent back to,
	// or its query. Url holds nothing that is secret from the user. It is called once.
	Authorize(ctx context.Context, url string) (callback string, err error)
	// Close gives up what the visit holds, and waits until it is gone.
	Close() error
}

// ByHand is an Interaction for programs that take the answer in a way of their own, as
// when a user on another machine copies the address that their browser could not open.
type ByHand struct {
	// RedirectURI is where the authorization server sends the user.
	RedirectURI string
	// Visit shows url to the user and returns the URL that they were sent back to.
	Visit func(ctx context.Context, url string) (callback string, err error)
}

// Begin implements Interaction.
func (h *ByHand) Begin(context.Context, string) (Visit, error) { return byHand{h}, nil }

type byHand struct{ h *ByHand }

func (v byHand) RedirectURI() string { return v.h.RedirectURI }

func (v byHand) Authorize(ctx context.Context, url string) (string, error) {
	return v.h.Visit(ctx, url)
}

func (v byHand) Close() error { return nil }
