package oauth

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// Registration is a client that an authorization server knows. Client identifiers
// mean something at that server only, so each is bound to one.
type Registration struct {
	// Issuer is the authorization server that knows the client, as its metadata has it.
	Issuer string
	// Server, if Issuer is not known, is the URL of the MCP server whose authorization
	// server knows the client. The first that it names is remembered; when it names
	// another one later, there is an error and not a login.
	Server string

	ClientID     string
	ClientSecret string
	// Key signs assertions for the method private_key_jwt.
	Key *SigningKey
	// Method is how the client authenticates at the token endpoint:
	// "client_secret_basic", "client_secret_post", "private_key_jwt" or "none". Empty:
	// what fits the credentials and the authorization server.
	Method string
	// RedirectURI is where the client receives codes, if the server knows it by one.
	RedirectURI string
}

// client is a registration as it is used and stored.
type client struct {
	ID          string    `json:"client_id"`
	Secret      string    `json:"client_secret,omitzero"`
	Method      string    `json:"token_endpoint_auth_method,omitzero"`
	RedirectURI string    `json:"redirect_uri,omitzero"`
	Expires     time.Time `json:"expires,omitzero"` // of the secret
	ByHand      bool      `json:"by_hand,omitzero"` // it is what Client.PromptRegistration returned

	key   *SigningKey
	kept  bool // in the store, and not by the program
	bound bool // to the MCP server, and so to the issuer that was found first
}

// dynamic reports whether it was made by dynamic registration.
func (c *client) dynamic() bool { return c.kept && !c.ByHand }

func (c *client) expired(now time.Time) bool { return !c.Expires.IsZero() && now.After(c.Expires) }

// preRegistered is the client that the program has for an issuer or an MCP server.
func (c *Client) preRegistered(issuer, server string) *client {
	for _, byIssuer := range []bool{true, false} {
		for _, r := range c.Registrations {
			if r.Issuer != "" && byIssuer && r.Issuer == issuer || r.Issuer == "" && !byIssuer && sameServer(r.Server, server) {
				return &client{ID: r.ClientID, Secret: r.ClientSecret, Method: r.Method, RedirectURI: r.RedirectURI, key: r.Key, bound: r.Issuer == ""}
			}
		}
	}
	return nil
}

func sameServer(a, b string) bool {
	a, errA := canonicalServer(a)
	b, errB := canonicalServer(b)
	return errA == nil && errB == nil && a == b
}

// maxRegistrationTime is how long a secret may be said to last; beyond it dates overflow.
const maxLifetime = 10 * 365 * 24 * time.Hour

// register makes a client known to an authorization server (RFC 7591). It is
// deprecated by 2026-07-28, and what remains where documents are not supported.
func (s *session) register(ctx context.Context, f *found, redirectURI string) (*client, error) {
	method := requestedMethod(f.server.TokenAuthMethods)
	grants := []string{"authorization_code"}
	if f.server.grants("refresh_token") {
		grants = append(grants, "refresh_token")
	}
	body, err := json.Marshal(struct {
		Name            string   `json:"client_name"`
		URI             string   `json:"client_uri,omitzero"`
		RedirectURIs    []string `json:"redirect_uris"`
		GrantTypes      []string `json:"grant_types"`
		ResponseTypes   []string `json:"response_types"`
		Method          string   `json:"token_endpoint_auth_method"`
		ApplicationType string   `json:"application_type"`
	}{
		s.owner.name(), s.owner.URI, []string{redirectURI}, grants, []string{"code"}, method, applicationType(redirectURI),
	})
	if err != nil {
		return nil, err
	}
	endpoint, err := s.web.check(f.server.RegistrationEndpoint)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := s.web.do(req)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusCreated && r.status != http.StatusOK {
		return nil, fmt.Errorf("%w: %w", ErrRegistration, reported("registration", r, nil))
	}
	var answer struct {
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
		Expires int64  `json:"client_secret_expires_at"`
		Method  string `json:"token_endpoint_auth_method"`
	}
	if decode(r.body, &answer) != nil || answer.ID == "" || len(answer.ID) > maxURL || len(answer.Secret) > maxURL {
		return nil, fmt.Errorf("%w: of the registration endpoint: there is no client_id in it", ErrInvalidResponse)
	}
	made := &client{ID: answer.ID, Secret: answer.Secret, Method: answer.Method, RedirectURI: redirectURI, kept: true}
	if answer.Expires > 0 && answer.Secret != "" {
		made.Expires = time.Unix(answer.Expires, 0)
	}
	if made.Method == "" && made.Secret == "" {
		made.Method = methodNone
	}
	return made, nil
}

// requestedMethod is how to authenticate as a client that is about to be registered.
// A program on somebody's machine keeps no secret from them, so none is asked for
// unless the server wants one.
func requestedMethod(supported []string) string {
	for _, m := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(supported, m) {
			return m
		}
	}
	return methodNone
}

// applicationType says whether a redirect leads to the user's machine (2026-07-28,
// basic/authorization/client-registration, Application Type).
func applicationType(redirectURI string) string {
	u, err := url.Parse(redirectURI)
	if err == nil && u.Scheme == "https" && !httpurl.IsLoopback(u.Hostname()) {
		return "web"
	}
	return "native"
}
