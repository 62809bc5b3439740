package oauth

import "context"

// Interaction is how a user gets to an authorization server and how the answer gets
// back. [Loopback] is one, [Manual] another.
type Interaction interface {
	// Begin prepares to take an answer. Previous is the redirect URI that the
	// authorization server knows already, or empty: taking it again spares the client
	// another registration.
	Begin(ctx context.Context, previous string) (Flow, error)
}

// Flow is one visit of a user to an authorization server.
type Flow interface {
	// RedirectURI is where the answer is expected: an https URL, or an http URL of this
	// machine.
	RedirectURI() string
	// Authorize takes the user to url, and returns the URL that they were sent back to,
	// or its query. Url holds nothing that is secret from the user. It is called once.
	Authorize(ctx context.Context, url string) (callback string, err error)
	// Close gives up what the visit holds, and waits until it is gone.
	Close() error
}

// Manual is an Interaction for programs that take the answer in a way of their own, as
// when a user on another machine copies the address that their browser could not open.
type Manual struct {
	// RedirectURI is where the authorization server sends the user.
	RedirectURI string
	// Open shows url to the user and returns the URL that they were sent back to.
	Open func(ctx context.Context, url string) (callback string, err error)
}

// Begin implements Interaction.
func (h *Manual) Begin(context.Context, string) (Flow, error) { return manual{h}, nil }

type manual struct{ h *Manual }

func (v manual) RedirectURI() string { return v.h.RedirectURI }

func (v manual) Authorize(ctx context.Context, url string) (string, error) {
	return v.h.Open(ctx, url)
}

func (v manual) Close() error { return nil }
