// Package introspection verifies access tokens by asking the authorization server that
// issued them (RFC 7662).
package introspection

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/internal/issuer"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Verifier is an [auth.Verifier] that asks the authorization server about each token
// (RFC 7662). Use it for tokens that only the authorization server can read, or that must
// stop working soon after they are revoked. Set the fields before the first use. A
// Verifier must not be copied after that.
type Verifier struct {
	// Endpoint is the URL of the introspection endpoint: https, or http on the loopback
	// interface.
	Endpoint string
	// Issuer is the identifier of the authorization server. Tokens of other issuers are rejected.
	Issuer string
	// ClientID and ClientSecret authenticate this server at the endpoint (RFC 6749,
	// section 2.3.1).
	ClientID, ClientSecret string
	// ScopesFrom is the claim with the scopes, such as "permissions" or "realm_access.roles" (see [auth.Info.Claim]):
	// a string of scopes separated by spaces, an array, or an object whose keys are the scopes. Empty: "scope" or
	// "scp".
	ScopesFrom string
	// TokenInfo asks for tokens of Google, whose endpoint takes them in the Authorization header and responds with
	// neither "active" nor "iss". Endpoint is then https://oauth2.googleapis.com/tokeninfo if it is empty, and Issuer
	// https://accounts.google.com. The audience of the tokens is the ID of their client.
	TokenInfo bool
	// Authenticate, if set, authenticates the request in another way.
	Authenticate func(*http.Request) error
	// CacheFor is how long a response is cached, at most until its token expires. A
	// revoked token continues to work for that time. 0 means 15 seconds; a negative value
	// disables the cache. The cache has at most 10,000 entries, whose keys are digests.
	CacheFor time.Duration
	// HTTP sends the requests; nil: a dedicated client. Redirects to another origin are not followed. A response may
	// contain up to 512 KiB and take up to 10 seconds. At most 64 requests run at a time; further tokens are
	// rejected with [auth.ErrUnavailable].
	HTTP *http.Client
	Now  func() time.Time // returns the current time; nil: time.Now

	once             sync.Once
	err              error
	endpoint, issuer string // Endpoint and Issuer, or their defaults
	client           *issuer.Client
	slots            chan struct{}

	mu    sync.Mutex
	cache map[[sha256.Size]byte]entry
}

var _ auth.Verifier = (*Verifier)(nil)

// entry is a cached response.
type entry struct {
	info  *auth.Info
	err   error // if the token is not valid
	until time.Time
}

const (
	maxEntries      = 10_000
	maxConcurrent   = 64
	defaultCacheFor = 15 * time.Second
)

const (
	tokenInfoURL = "https://oauth2.googleapis.com/tokeninfo"
	googleIssuer = "https://accounts.google.com"
)

// errNow marks an error that depends on the time and may be gone a second later. It has no text.
var errNow = errors.New("")

var errBusy = fmt.Errorf("%w: %d introspection requests are running, the limit", auth.ErrUnavailable, maxConcurrent)

// Check returns an error if a field has an invalid value.
func (v *Verifier) Check() error {
	v.once.Do(func() {
		v.client, v.slots = issuer.NewClient(v.HTTP), make(chan struct{}, maxConcurrent)
		v.cache = make(map[[sha256.Size]byte]entry)
		v.endpoint, v.issuer = v.Endpoint, v.Issuer
		if v.TokenInfo {
			v.endpoint, v.issuer = cmp.Or(v.endpoint, tokenInfoURL), cmp.Or(v.issuer, googleIssuer)
		}
		if _, err := httpurl.ParseSecure(v.endpoint); err != nil {
			v.err = fmt.Errorf("introspection endpoint: %w", err)
		} else if err := httpurl.CheckIssuer(v.issuer); err != nil {
			v.err = fmt.Errorf("issuer %q: %w", v.issuer, err)
		}
	})
	return v.err
}

func (v *Verifier) now() time.Time {
	if v.Now != nil {
		return v.Now()
	}
	return time.Now()
}

// Verify implements [auth.Verifier].
func (v *Verifier) Verify(ctx context.Context, token string) (*auth.Info, error) {
	if err := v.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	}
	key := sha256.Sum256([]byte(token))
	if e, ok := v.cached(key); ok {
		return e.info, e.err
	}
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	default:
		return nil, errBusy
	}
	info, err := v.introspect(ctx, token)
	var invalid *auth.InvalidTokenError
	if err == nil || errors.As(err, &invalid) {
		if !errors.Is(err, errNow) {
			v.store(key, entry{info: info, err: err})
		}
		return info, err
	}
	return nil, fmt.Errorf("%w: introspection: %w", auth.ErrUnavailable, err)
}

func (v *Verifier) cached(key [sha256.Size]byte) (entry, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.cache[key]
	return e, ok && v.now().Before(e.until)
}

func (v *Verifier) store(key [sha256.Size]byte, e entry) {
	ttl := v.CacheFor
	if ttl == 0 {
		ttl = defaultCacheFor
	}
	now := v.now()
	e.until = now.Add(ttl)
	if e.info != nil && !e.info.Expiry.IsZero() && e.info.Expiry.Before(e.until) {
		e.until = e.info.Expiry
	}
	if !e.until.After(now) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.cache) >= maxEntries {
		for k, old := range v.cache {
			if !now.Before(old.until) {
				delete(v.cache, k)
			}
		}
	}
	for k := range v.cache { // evicting a valid entry costs one more request
		if len(v.cache) < maxEntries {
			break
		}
		delete(v.cache, k)
	}
	v.cache[key] = e
}

// introspect sends one request to the introspection endpoint.
func (v *Verifier) introspect(ctx context.Context, token string) (*auth.Info, error) {
	// The endpoints of some authorization servers say that ID tokens are active, too.
	if payload := issuer.PayloadOf(token); payload != nil && (v.TokenInfo || issuer.IsIDToken(payload)) {
		return nil, issuer.Invalid(issuer.NoAccess)
	}
	data, err := v.ask(ctx, token)
	if err != nil {
		return nil, err
	}
	profile := issuer.Default
	if v.TokenInfo {
		profile = issuer.FindProfile("google")
	}
	c, ok := issuer.ReadClaims(data, profile, v.ScopesFrom)
	switch {
	case !c.Active && !v.TokenInfo: // then the other fields have no meaning
		return nil, issuer.Invalid("the token is not active: it has expired or was revoked, so get a new one")
	case !ok:
		return nil, issuer.Invalid("a claim of the token is malformed")
	case c.Issuer != "" && c.Issuer != v.issuer:
		return nil, issuer.Invalid("the issuer of the token is not trusted: get a token of " + v.issuer)
	case issuer.IsIDToken(data):
		return nil, issuer.Invalid(issuer.NoAccess)
	case v.TokenInfo && c.Expiry.IsZero():
		return nil, issuer.Invalid("the token has no expiry time")
	}
	c.Issuer = v.issuer
	if c.Subject == "" { // a client that acts on its own behalf
		c.Subject = c.Client
	}
	if err := c.Check(v.now(), issuer.Leeway); err != nil {
		return nil, fmt.Errorf("%w%w", errNow, err)
	}
	return c.Info(data)
}

// ask asks the endpoint about a token, and returns the JSON object of its response.
func (v *Verifier) ask(ctx context.Context, token string) ([]byte, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	if v.TokenInfo {
		form = nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	switch {
	case v.TokenInfo:
		req.Header.Set("Authorization", "Bearer "+token)
	case v.Authenticate != nil:
		if err := v.Authenticate(req); err != nil {
			return nil, fmt.Errorf("cannot authenticate the request: %w", err)
		}
	case v.ClientID != "":
		req.SetBasicAuth(url.QueryEscape(v.ClientID), url.QueryEscape(v.ClientSecret))
	}
	data, err := v.client.Do(req)
	var status *issuer.StatusError
	switch {
	case v.TokenInfo && errors.As(err, &status) && (status.Status == http.StatusBadRequest ||
		status.Status == http.StatusUnauthorized):
		return nil, issuer.Invalid("the token is not valid or has expired: get a new one")
	case err != nil:
		return nil, err
	}
	if err := jsonrpc.Check(data, jsonrpc.Limits{}); err != nil {
		return nil, fmt.Errorf("the response must be a JSON object: %w", err)
	}
	if len(data) == 0 || data[0] != '{' {
		return nil, errors.New("the response must be a JSON object")
	}
	// some servers send errors with status 200
	if code, ok := jsonrpc.Get(data, "error"); ok && jsonrpc.Unquote(code) != "" {
		return nil, errors.New("the response is an error of the authorization server")
	}
	return data, nil
}
