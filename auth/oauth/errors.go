package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/parley-mcp/parley/auth/internal/secrets"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// The errors of an authorization, wrapped with details. A request that fails with one of them also fails with
// call.ErrUnauthorized.
var (
	// errForbiddenAddress means that a server named a URL that leads to a private
	// network, to the loopback interface, or to another address that is not public.
	errForbiddenAddress = errors.New("address is not public")
	// ErrDiscovery means that the metadata of the MCP server or of its authorization
	// server is missing or unusable.
	ErrDiscovery = errors.New("cannot discover the authorization server")
	// errResourceMismatch means that the metadata describes a resource other than the
	// MCP server.
	errResourceMismatch = errors.New("the metadata describes another resource")
	// errIssuerMismatch means that metadata or a response names an issuer other than
	// the authorization server that was asked.
	errIssuerMismatch = errors.New("unexpected issuer")
	// errIssuerChanged means that a registration belongs to the authorization server that
	// the MCP server named first, but the MCP server now names another.
	errIssuerChanged = errors.New("the MCP server has changed its authorization server")
	// ErrNoPKCE means that the metadata of the authorization server does not list the PKCE method S256.
	// Client.AssumePKCE skips this check.
	ErrNoPKCE = errors.New("the metadata of the authorization server does not list the PKCE method S256")
	// ErrResource means that the authorization server seems to reject the parameter resource. Client.NoResource omits
	// it.
	ErrResource = errors.New("the authorization server rejects the parameter resource")
	// ErrRegistration means that this program is not registered at the authorization
	// server, or that the registration is unusable.
	ErrRegistration = errors.New("no usable client registration")
	// ErrInteraction means that the authorization needs a user who is not available.
	ErrInteraction = errors.New("authorization needs a user")
	// errDeclined means that the program or its user declined the authorization.
	errDeclined = errors.New("authorization declined")
	// errInvalidResponse means that a response violates OAuth.
	errInvalidResponse = errors.New("invalid response from the authorization server")
	// errInsufficientScope means that the server requires scopes that the token
	// was already requested with, or does not name the scopes.
	errInsufficientScope = errors.New("insufficient scope")
	// errTokenRejected means that the server rejected a token that was issued just now.
	errTokenRejected = errors.New("the server rejected a new access token")
	// errTooManyAttempts means that too many authorizations were started in a short
	// time. Try again later.
	errTooManyAttempts = errors.New("too many authorizations in a short time")
)

// InteractionError reports an authorization that needs a user, while Client.Interaction
// is nil. It wraps [ErrInteraction].
type InteractionError struct{ Request AuthorizationRequest }

// Error implements the error interface.
func (e *InteractionError) Error() string {
	server := "the server"
	if u, err := url.Parse(e.Request.Server); err == nil {
		server = httpurl.WithoutQuery(u)
	}
	return fmt.Sprintf("%s: %.200q requires a login at %.200q; set Client.Interaction", ErrInteraction, server,
		e.Request.Issuer)
}

// Unwrap returns [ErrInteraction].
func (e *InteractionError) Unwrap() error { return ErrInteraction }

// ServerError is an error that an authorization server reported (RFC 6749, sections
// 4.1.2.1 and 5.2).
type ServerError struct {
	Code        string // such as "access_denied"; at most 64 characters
	Description string // the server's text, at most 512 bytes; may be empty

	endpoint string // "authorization", "token" or "registration"
	status   int    // the HTTP status; 0 at the authorization endpoint
}

// Error implements the error interface.
func (e *ServerError) Error() string {
	text := "error from the authorization server"
	if e.endpoint != "" {
		text = "error from the " + e.endpoint + " endpoint of the authorization server"
	}
	if e.Code != "" {
		text += ": " + e.Code
	}
	if e.status != 0 {
		text += fmt.Sprintf(" (HTTP status %d)", e.status)
	}
	if e.Description != "" {
		text += fmt.Sprintf(": %q", e.Description)
	}
	return text
}

// ofResource adds ErrResource to the error of a request with the parameter resource, if the error is about this
// parameter.
func ofResource(err error) error {
	if e := new(ServerError); !errors.As(err, &e) || !e.aboutResource() {
		return err
	}
	return fmt.Errorf("%w: %w; the setting NoResource leaves it out", ErrResource, err)
}

// aboutResource reports whether an error is about the parameter resource: it has the code of RFC 8707, section 2, or
// a code that some service uses, or its text names the parameter.
func (e *ServerError) aboutResource() bool {
	text := strings.ToLower(e.Description)
	switch e.Code {
	case "invalid_target", "invalid_resource":
		return true
	case "invalid_request", "invalid_parameter", "unsupported_parameter":
		text = strings.NewReplacer("resource owner", "", "resource server", "").Replace(text)
		if resourceWord.MatchString(text) {
			return true
		}
	}
	// Microsoft Entra ID: the parameter is not supported, or does not match the scopes.
	return strings.Contains(text, "aadsts901002") || strings.Contains(text, "aadsts9010010")
}

var resourceWord = regexp.MustCompile(`\bresource\b`)

// newServerError returns a ServerError without secrets and control characters. It limits the lengths.
func newServerError(endpoint string, status int, code, description string, hide secrets.Set) *ServerError {
	code, description = hide.Clean(secrets.Printable(code), "***"), hide.Clean(secrets.Printable(description), "***")
	return &ServerError{Code: code[:min(len(code), 64)], Description: description[:min(len(description), 512)],
		endpoint: endpoint, status: status}
}
