package oauth

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that say what stood in the way of a token. They are wrapped with what they
// are about; over HTTP call.ErrUnauthorized is in the same error.
var (
	// ErrInsecureURL: a URL is neither https nor, while the MCP server itself is on
	// this machine, http on this machine; or it holds what such a URL must not.
	ErrInsecureURL = errors.New("the URL may not be used for authorization")
	// ErrForbiddenAddress: a URL that a peer has named leads into a private network, to
	// this machine, or to another address that is not public.
	ErrForbiddenAddress = errors.New("the address is not public")
	// ErrDiscovery: the server, or its authorization server, has no usable metadata.
	ErrDiscovery = errors.New("no usable metadata")
	// ErrResourceMismatch: the metadata is of another server than was asked.
	ErrResourceMismatch = errors.New("the metadata is of another resource")
	// ErrIssuerMismatch: an authorization server says that it is another than was asked.
	ErrIssuerMismatch = errors.New("the issuer is another than was expected")
	// ErrIssuerChanged: credentials are for the authorization server that the MCP
	// server named before, and it now names another.
	ErrIssuerChanged = errors.New("the server has changed its authorization server")
	// ErrNoPKCE: the authorization server does not say that it supports PKCE with S256.
	ErrNoPKCE = errors.New("the authorization server does not advertise PKCE with S256")
	// ErrRegistration: the authorization server knows no client of ours.
	ErrRegistration = errors.New("no client registration")
	// ErrInteraction: a user would have to be asked, and cannot be.
	ErrInteraction = errors.New("authorization needs a user")
	// ErrState: an authorization response does not belong to our request.
	ErrState = errors.New("the authorization response is not to this request")
	// ErrDeclined: the program or its user does not want this authorization.
	ErrDeclined = errors.New("the authorization was not wanted")
	// ErrInvalidResponse: what came is no response that OAuth allows.
	ErrInvalidResponse = errors.New("invalid response of the authorization server")
	// ErrInsufficientScope: the server wants scopes that the token was asked for already.
	ErrInsufficientScope = errors.New("the token's scopes do not suffice")
	// ErrTokenRejected: the server does not take the token that it asked for.
	ErrTokenRejected = errors.New("the server refuses the token it asked for")
	// ErrTooManyAttempts: there were too many authorizations for a server in a short
	// time. Later ones may succeed.
	ErrTooManyAttempts = errors.New("too many authorizations in a short time")
)

// InteractionError says what a user would have to be asked for, where nobody can be:
// Client.Interaction is nil. It is an ErrInteraction.
type InteractionError struct{ Request AuthorizationRequest }

// Error implements the error interface.
func (e *InteractionError) Error() string {
	return fmt.Sprintf("%s: %.200q wants one to log in at %.200q; set Client.Interaction", ErrInteraction, e.Request.Server, e.Request.Issuer)
}

// Unwrap returns ErrInteraction.
func (e *InteractionError) Unwrap() error { return ErrInteraction }

// ServerError is what an authorization server reports instead of a token or a code
// (RFC 6749, sections 4.1.2.1 and 5.2).
type ServerError struct {
	Endpoint    string // which one: "authorization", "token", "registration"
	Status      int    // of HTTP; 0 at the authorization endpoint
	Code        string // such as "access_denied"; at most 64 characters
	Description string // another party's words, at most 512 bytes; may be empty
}

// Error implements the error interface.
func (e *ServerError) Error() string {
	text := "the authorization server's " + e.Endpoint + " endpoint answers"
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP status %d)", e.Status)
	}
	if e.Description != "" {
		text += fmt.Sprintf(": %q", e.Description)
	}
	return text
}

// newServerError takes what an authorization server says, bounded, printable, and
// without the secrets that were sent to it and that it may repeat.
func newServerError(endpoint string, status int, code, description string, secrets []string) *ServerError {
	for _, s := range secrets {
		if len(s) >= 4 {
			code = strings.ReplaceAll(code, s, "…")
			description = strings.ReplaceAll(description, s, "…")
		}
	}
	return &ServerError{Endpoint: endpoint, Status: status, Code: printable(code, 64), Description: printable(description, 512)}
}

// printable is the part of a text that RFC 6749 allows in errors.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7E {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), most)]
}
