package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Introspection verifies tokens by asking the authorization server about each (RFC
// 7662): the way for tokens that only their issuer can read, and for those that have to
// stop working at once when they are revoked. Its fields are set before first use; it
// must not be copied afterwards.
type Introspection struct {
	Endpoint string // https, or http on the loopback interface
	// Issuer is the authorization server's identifier. A response that names another is
	// refused.
	Issuer string
	// ClientID and ClientSecret are how this server authenticates at the endpoint (RFC
	// 6749, section 2.3.1). Authenticate, if set, does it in another way.
	ClientID, ClientSecret string
	Authenticate           func(*http.Request) error
	// CacheFor is for how long an answer is used again: for so long, a token that was
	// revoked still works. 0: 15 seconds. Negative: not at all. Answers are kept under
	// a digest of the token, 10,000 at most, and none outlives its token.
	CacheFor time.Duration
	// HTTP asks, redirects to another origin apart. Nil: a client of its own. An answer
	// has at most 512 KiB and takes at most 10 seconds. 64 tokens are asked about at a
	// time; the others are answered with [ErrUnavailable].
	HTTP *http.Client
	Now  func() time.Time // nil: time.Now

	once  sync.Once
	err   error
	fetch *fetcher
	slots chan struct{}

	mu    sync.Mutex
	known map[[sha256.Size]byte]answer
}

var _ Verifier = (*Introspection)(nil)

// answer is what is known of one token.
type answer struct {
	info  *Info
	err   error // of a token that is not valid
	until time.Time
}

const (
	maxAnswers       = 10_000
	maxAsking        = 64
	introspectionTTL = 15 * time.Second
)

var errBusy = fmt.Errorf("%w: too many are being asked about", ErrUnavailable)

// Check returns what is wrong with the fields, or nil.
func (i *Introspection) Check() error {
	i.once.Do(func() {
		i.fetch, i.slots = newFetcher(i.HTTP), make(chan struct{}, maxAsking)
		i.known = make(map[[sha256.Size]byte]answer)
		if _, err := safeURL(i.Endpoint); err != nil {
			i.err = fmt.Errorf("introspection endpoint: %w", err)
		} else if err := checkIssuer(i.Issuer); err != nil {
			i.err = fmt.Errorf("issuer %q: %w", i.Issuer, err)
		}
	})
	return i.err
}

func (i *Introspection) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}

// Verify implements [Verifier].
func (i *Introspection) Verify(ctx context.Context, token string) (*Info, error) {
	if err := i.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	key := sha256.Sum256([]byte(token))
	if a, ok := i.lookup(key); ok {
		return a.info, a.err
	}
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	default:
		return nil, errBusy
	}
	info, err := i.ask(ctx, token)
	var not *InvalidTokenError
	if err == nil || errors.As(err, &not) {
		i.remember(key, answer{info: info, err: err})
		return info, err
	}
	return nil, fmt.Errorf("%w: introspection: %w", ErrUnavailable, err)
}

func (i *Introspection) lookup(key [sha256.Size]byte) (answer, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, ok := i.known[key]
	return a, ok && i.now().Before(a.until)
}

func (i *Introspection) remember(key [sha256.Size]byte, a answer) {
	ttl := i.CacheFor
	if ttl == 0 {
		ttl = introspectionTTL
	}
	now := i.now()
	a.until = now.Add(ttl)
	if a.info != nil && !a.info.Expiry.IsZero() && a.info.Expiry.Before(a.until) {
		a.until = a.info.Expiry
	}
	if !a.until.After(now) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.known) >= maxAnswers {
		for k, old := range i.known {
			if !now.Before(old.until) {
				delete(i.known, k)
			}
		}
	}
	for k := range i.known { // any will do: it costs a question
		if len(i.known) < maxAnswers {
			break
		}
		delete(i.known, k)
	}
	i.known[key] = a
}

// ask asks the authorization server.
func (i *Introspection) ask(ctx context.Context, token string) (*Info, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	switch {
	case i.Authenticate != nil:
		if err := i.Authenticate(req); err != nil {
			return nil, fmt.Errorf("authenticate: %w", err)
		}
	case i.ClientID != "":
		req.SetBasicAuth(url.QueryEscape(i.ClientID), url.QueryEscape(i.ClientSecret))
	}
	data, err := i.fetch.do(req)
	if err != nil {
		return nil, err
	}
	if err := jsonrpc.Check(data, jsonrpc.Limits{}); err != nil || len(data) == 0 || data[0] != '{' {
		return nil, errors.New("the response is not a JSON object")
	}
	c, ok := readClaims(data)
	switch {
	case !c.active: // what else it says means nothing then
		return nil, invalid("the token is not active")
	case !ok:
		return nil, invalid("one of its claims is malformed")
	case c.issuer != "" && c.issuer != i.Issuer:
		return nil, invalid("its issuer is not trusted here")
	}
	c.issuer = i.Issuer
	if c.subject == "" { // a client that acts for nobody but itself
		c.subject = c.client
	}
	if err := c.check(i.now(), 0); err != nil {
		return nil, err
	}
	return c.info(data)
}
