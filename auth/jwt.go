package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// JWT verifies access tokens that are JSON Web Tokens signed by their issuer (RFC 9068),
// with the keys that the issuer publishes. These are found through its metadata (RFC
// 8414, OpenID Connect Discovery), kept for an hour, and fetched anew when a token names
// one that is not known, at most every ten seconds. When they cannot be fetched, those
// that are known are used for another hour.
//
// A token has to say that it is an access token, of one of the issuers, in force, and
// signed with an asymmetric algorithm. Its fields are set before first use; it must not
// be copied afterwards.
type JWT struct {
	// Issuers are compared byte for byte with what tokens say (RFC 8414, section 2). At
	// least one; https, or http on the loopback interface.
	Issuers []string
	// KeysURL is where the keys are, for a single issuer that has no metadata.
	KeysURL string
	// Types are the media types that a token's header may have; nil: "at+jwt". Issuers
	// that know nothing of RFC 9068 say "JWT" of everything; their other tokens can then
	// be told from access tokens by their audience only.
	Types []string
	// Leeway is by how much clocks may differ; default 30 seconds.
	Leeway time.Duration
	// HTTP fetches metadata and keys, redirects to another origin apart. Nil: a client
	// of its own. What is fetched has at most 512 KiB and takes at most 10 seconds.
	HTTP *http.Client
	Now  func() time.Time // nil: time.Now

	once sync.Once
	err  error
	keys map[string]*keyCache // by issuer
}

var _ Verifier = (*JWT)(nil)

const defaultLeeway = 30 * time.Second

var errNoIssuer = errors.New("there is no issuer: name the authorization server")

// Check returns what is wrong with the fields, or nil.
func (j *JWT) Check() error {
	j.once.Do(j.begin)
	return j.err
}

func (j *JWT) begin() {
	switch {
	case len(j.Issuers) == 0:
		j.err = errNoIssuer
		return
	case j.KeysURL != "" && len(j.Issuers) > 1:
		j.err = errors.New("KeysURL is for one issuer, and there are several")
		return
	}
	fetch := newFetcher(j.HTTP)
	j.keys = make(map[string]*keyCache)
	for _, issuer := range j.Issuers {
		if err := checkIssuer(issuer); err != nil {
			j.err = fmt.Errorf("issuer %q: %w", issuer, err)
			return
		}
		j.keys[issuer] = &keyCache{now: j.now, fetch: func(ctx context.Context) ([]publicKey, error) {
			return fetch.keysOf(ctx, issuer, j.KeysURL)
		}}
	}
	if j.KeysURL != "" {
		if _, err := safeURL(j.KeysURL); err != nil {
			j.err = fmt.Errorf("KeysURL: %w", err)
		}
	}
}

func (j *JWT) now() time.Time {
	if j.Now != nil {
		return j.Now()
	}
	return time.Now()
}

// Verify implements [Verifier].
func (j *JWT) Verify(ctx context.Context, token string) (*Info, error) {
	if err := j.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	t, err := parseJWS(token)
	if err != nil {
		return nil, invalid(err.Error())
	}
	types := j.Types
	if types == nil {
		types = []string{"at+jwt"}
	}
	if !slices.ContainsFunc(types, t.isType) {
		return nil, invalid("its type is not that of an access token")
	}
	// What costs nothing comes before the signature.
	c, ok := readClaims(t.payload)
	keys := j.keys[c.issuer]
	leeway := j.Leeway
	if leeway <= 0 {
		leeway = defaultLeeway
	}
	switch {
	case !ok:
		return nil, invalid("one of its claims is malformed")
	case keys == nil:
		return nil, invalid("its issuer is not trusted here")
	case c.expiry.IsZero():
		return nil, invalid("it does not say when it expires")
	}
	if err := c.check(j.now(), leeway); err != nil {
		return nil, err
	}
	candidates, err := keys.find(ctx, t.kid, t.alg)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(candidates, t.verify) {
		return nil, invalid("its signature does not verify")
	}
	return c.info(t.payload)
}
