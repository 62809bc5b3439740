package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// Authentication methods at a token endpoint.
const (
	methodNone       = "none"
	methodBasic      = "client_secret_basic"
	methodPost       = "client_secret_post"
	methodPrivateKey = "private_key_jwt"

	endpointRegistration = "registration" // in errors

	contentForm   = "application/x-www-form-urlencoded"
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// token is an access token with its refresh token and key. It is stored as JSON.
type token struct {
	Access  string    `json:"access_token"`
	Type    string    `json:"token_type"` // "Bearer" or "DPoP"
	Refresh string    `json:"refresh_token,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	Renew   time.Time `json:"renew,omitzero"` // when to renew the token
	// Requested are the requested scopes; Scopes are the granted ones.
	Requested []string  `json:"requested,omitzero"`
	Scopes    []string  `json:"scopes,omitzero"`
	Proof     *proofKey `json:"proof_key,omitzero"` // only for type DPoP
	// Client is the client that the token was issued to; nil: a configured one.
	Client   *client  `json:"client,omitzero"`
	Settings settings `json:"settings,omitzero"`

	issued    time.Time // when this process got it by a grant
	refreshed time.Time // when this process got it by refreshing another
	headers   []string  // values of the Authorization header
}

const (
	typeBearer = "Bearer"
	typeDPoP   = "DPoP"

	maxToken = 64 << 10 // bytes
)

// expiring reports whether to renew the token before its next use.
func (t *token) expiring(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Renew) }

// renewBefore is how long before its expiry a token is renewed. It is a tenth of the
// lifetime if that is less.
const renewBefore = 10 * time.Second

func (t *token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// tokenRequest is a request to a token endpoint.
type tokenRequest struct {
	endpoint string
	issuer   string     // the audience of assertions; empty: the endpoint
	form     url.Values // without the client's credentials
	client   *client    // nil: none
	methods  []string   // authentication methods of the server
	key      *proofKey  // nil: request a bearer token
	settings settings   // settings of the login
	send     func(*http.Request) (*response, error)
}

// scopes returns the requested scopes.
func (r *tokenRequest) scopes() []string { return strings.Fields(r.form.Get("scope")) }

// do requests a token. nonce is the last DPoP nonce of the server, and do updates it. If
// the server requires a new nonce, do sends the request again.
func (r *tokenRequest) do(ctx context.Context, nonce *string) (*token, error) {
	for attempt := 0; ; attempt++ {
		resp, err := r.once(ctx, *nonce)
		if err != nil {
			return nil, err
		}
		if n := resp.header.Get(headerDPoPNonce); r.key != nil && validNonce(n) {
			*nonce = n
		}
		if err = r.failure(resp); err == nil {
			return r.read(resp)
		}
		if !isServerError(err, errDPoPNonce) || r.key == nil || attempt > 0 {
			return nil, err
		}
	}
}

// failure returns the error in a response, or nil for success.
func (r *tokenRequest) failure(resp *response) error {
	err := resp.failure("token")
	if r.form.Has("resource") {
		return ofResource(err)
	}
	return err
}

// once sends the request.
func (r *tokenRequest) once(ctx context.Context, nonce string) (*response, error) {
	form := url.Values{}
	for name, values := range r.form {
		form[name] = values
	}
	var basic string
	if r.client != nil {
		var err error
		if basic, err = r.client.authenticate(form, r.methods, r.audience()); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("%w: cannot parse the token endpoint", httpurl.ErrInsecure)
	}
	req.Header.Set("Content-Type", contentForm)
	if basic != "" {
		req.Header.Set("Authorization", "Basic "+basic)
	}
	if r.key != nil {
		proof, err := r.key.proof(http.MethodPost, req.URL, nonce, "")
		if err != nil {
			return nil, err
		}
		req.Header.Set(headerDPoP, proof)
	}
	return r.send(req)
}

func (r *tokenRequest) audience() string {
	if r.issuer != "" {
		return r.issuer
	}
	return r.endpoint
}

// authenticate adds the client's credentials to a form, or returns the value of a Basic
// Authorization header.
func (c *client) authenticate(form url.Values, supported []string, audience string) (basic string, err error) {
	if err := c.checkMethod(); err != nil {
		return "", err
	}
	method := c.Method
	if method == "" {
		method = c.chooseMethod(supported)
	}
	switch method {
	case methodBasic:
		// RFC 6749, section 2.3.1 requires the form encoding.
		return base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.ID) + ":" + url.QueryEscape(c.Secret))), nil
	case methodPost:
		form.Set("client_id", c.ID)
		form.Set("client_secret", c.Secret)
	case methodPrivateKey:
		assertion, err := c.key.assertion(c.ID, audience)
		if err != nil {
			return "", err
		}
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
	case methodNone:
		if c.ID != "" {
			form.Set("client_id", c.ID)
		}
	}
	return "", nil
}

// checkMethod returns an error if the client cannot authenticate with the registered method. It is called before a
// login, so that the user does not log in for nothing.
func (c *client) checkMethod() error {
	switch c.Method {
	case "", methodNone, methodBasic, methodPost:
		return nil
	case methodPrivateKey:
		if c.key != nil {
			return nil
		}
		return fmt.Errorf("%w: the authentication method private_key_jwt needs a key: register a client at the "+
			"authorization server, and add it to Client.Registrations with its Key", ErrRegistration)
	}
	return fmt.Errorf("%w: the authentication method %.64q is not supported: register a client with another one at "+
		"the authorization server, and add it to Client.Registrations", ErrRegistration, c.Method)
}

// chooseMethod returns the safest method that fits the credentials and that the server
// supports. A server that lists no methods supports client_secret_basic (RFC 8414,
// section 2).
func (c *client) chooseMethod(supported []string) string {
	switch {
	case c.key != nil:
		return methodPrivateKey
	case c.Secret == "":
		return methodNone
	case len(supported) == 0 || slices.Contains(supported, methodBasic):
		return methodBasic
	case slices.Contains(supported, methodPost):
		return methodPost
	case slices.Contains(supported, methodNone):
		return methodNone
	}
	return methodBasic
}

// read reads the token of a response (RFC 6749, section 5.1).
func (r *tokenRequest) read(resp *response) (*token, error) {
	var body struct {
		Access  string         `json:"access_token"`
		Type    string         `json:"token_type"`
		Expires jsontext.Value `json:"expires_in"`
		Refresh string         `json:"refresh_token"`
		Scope   *string        `json:"scope"`
	}
	if err := decode(resp.body, &body); err != nil {
		return nil, fmt.Errorf("%w: token endpoint: %w", errInvalidResponse, err)
	}
	if !validToken(body.Access) || body.Refresh != "" && !validToken(body.Refresh) {
		return nil, fmt.Errorf("%w: token endpoint: access_token or refresh_token is missing or invalid",
			errInvalidResponse)
	}
	t := &token{Access: body.Access, Refresh: body.Refresh, Requested: r.scopes(), Scopes: r.scopes(),
		Settings: r.settings}
	switch {
	case r.key != nil && strings.EqualFold(body.Type, typeDPoP):
		t.Type, t.Proof = typeDPoP, r.key
	case r.key == nil && strings.EqualFold(body.Type, typeBearer):
		t.Type = typeBearer
	default: // must not be used (RFC 6749, section 7.1)
		return nil, fmt.Errorf("%w: token endpoint: token_type must be the requested one, Bearer or DPoP",
			errInvalidResponse)
	}
	if body.Scope != nil {
		t.Scopes = splitScopes(*body.Scope)
	}
	if seconds, ok := readSeconds(body.Expires); ok {
		lifetime := time.Duration(min(seconds, maxLifetime.Seconds()) * float64(time.Second))
		t.Expires = time.Now().Add(lifetime)
		t.Renew = t.Expires.Add(-min(renewBefore, lifetime/10))
	}
	return t, nil
}

// maxLifetime limits token lifetimes: longer ones overflow dates.
const maxLifetime = 10 * 365 * 24 * time.Hour

// readSeconds reads a number of seconds. Some servers send it as a string or with a fraction, and some send null or
// something that is not a number, which counts as nothing.
func readSeconds(v jsontext.Value) (seconds float64, ok bool) {
	n, err := strconv.ParseFloat(strings.Trim(string(v), `"`), 64)
	return n, err == nil && n >= 0
}

// validToken reports whether a header can carry s as a token.
func validToken(s string) bool {
	if s == "" || len(s) > maxToken {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7E {
			return false
		}
	}
	return true
}

// failure returns the error in a response of an endpoint, or nil for success. Some servers send errors with status
// 200.
func (r *response) failure(endpoint string) error {
	var e struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if decode(r.body, &e) != nil {
		e.Code, e.Description = "", ""
	}
	created := r.status == http.StatusCreated && endpoint == endpointRegistration
	if e.Code == "" && (r.status == http.StatusOK || created) {
		return nil
	}
	if e.Description == "" && r.redirect != "" {
		e.Description = "redirect to " + r.redirect + ", which is not followed"
	}
	return newServerError(endpoint, r.status, e.Code, e.Description, r.secrets)
}

// isServerError reports whether err is a *ServerError with one of the codes.
func isServerError(err error, codes ...string) bool {
	var e *ServerError
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// tokenRequest returns a request to the token endpoint.
func (s *session) tokenRequest(d *discovery, form url.Values, c *client, key *proofKey, with settings) *tokenRequest {
	with.setResource(form, d.resourceID())
	return &tokenRequest{
		endpoint: d.server.TokenEndpoint, issuer: d.server.Issuer, form: form,
		client: c, methods: d.server.TokenAuthMethods, key: key, settings: with,
		send: func(req *http.Request) (*response, error) { return s.peers.do(req) },
	}
}

// setResource sets the parameter resource exactly as it stands in the metadata (2026-07-28, basic/authorization,
// Resource Parameter Implementation), unless the settings leave it out.
func (s settings) setResource(form url.Values, resource string) {
	if resource != "" && !s.NoResource {
		form.Set("resource", resource)
	}
}
