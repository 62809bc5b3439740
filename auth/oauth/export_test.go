package oauth

import (
	"context"
	"net/url"
	"syscall"

	"github.com/parley-mcp/parley/auth/internal/secrets"
	"github.com/parley-mcp/parley/auth/oauth/internal/authresponse"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// ObserveDials calls observe with each address that c dials.
func ObserveDials(c *Client, observe func(address string)) {
	c.onDial = func(next dialControl) dialControl {
		return func(ctx context.Context, network, address string, conn syscall.RawConn) error {
			if next != nil {
				if err := next(ctx, network, address, conn); err != nil {
					return err
				}
			}
			observe(address)
			return nil
		}
	}
}

// Errors that tell a person what to do, and that no program handles.
var (
	ErrInsecureURL       = httpurl.ErrInsecure
	ErrState             = authresponse.ErrState
	ErrForbiddenAddress  = errForbiddenAddress
	ErrTokenRejected     = errTokenRejected
	ErrIssuerChanged     = errIssuerChanged
	ErrIssuerMismatch    = errIssuerMismatch
	ErrResourceMismatch  = errResourceMismatch
	ErrInvalidResponse   = errInvalidResponse
	ErrInsufficientScope = errInsufficientScope
	ErrTooManyAttempts   = errTooManyAttempts
	ErrDeclined          = errDeclined
)

var IsPublic = isPublic

// ReadIDJAG reads the response of a token exchange.
func ReadIDJAG(body []byte, issuer, audience, resource, client string) (string, error) {
	return readIDJAG(body, idJAG{issuer, audience, resource, client})
}

// AcceptAuthorizationResponse returns the code of an authorization response. alwaysIss is
// what the metadata of the issuer declares.
func AcceptAuthorizationResponse(raw, state, issuer string, alwaysIss bool) (code string, err error) {
	r, err := authresponse.Parse(raw)
	if err != nil {
		return "", err
	}
	return accept(r, state, &serverMetadata{Issuer: issuer, IssParameter: alwaysIss}, new(secrets.Memory))
}

// ParseResource parses resource metadata and returns the resource.
func ParseResource(body []byte, from, server *url.URL) (string, error) {
	m, err := parseResource(body, from, server)
	if err != nil {
		return "", err
	}
	return m.Resource, nil
}

// ParseServer parses the metadata of an authorization server and returns its endpoints.
func ParseServer(body []byte, issuer string, server *url.URL) (endpoints []string, err error) {
	m, err := parseServer(body, issuer)
	if err == nil {
		err = m.checkEndpoints((&Client{}).newPeers(server))
	}
	if err != nil {
		return nil, err
	}
	return []string{m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint, m.RevocationEndpoint}, nil
}
