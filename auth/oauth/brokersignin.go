package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// The pages of a Broker identify the user of a browser by an access token for the program itself, which the issuers
// of the callers' tokens issue. The token is verified and not kept: a sealed cookie has the user. Nothing is stored
// for browsers whose user is not known.

const (
	signedInFor   = 15 * time.Minute
	signInCookie  = "signin_" // followed by the beginning of the id
	userCookie    = "user"
	userPurpose   = "oauth.Broker user"
	signInPurpose = "oauth.Broker sign-in "
)

// browserUser is the content of the cookie of a browser whose user is known.
type browserUser struct {
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Expires time.Time `json:"expires"`
}

// browserSignIn is the content of the cookie of a browser that is being sent to an issuer.
type browserSignIn struct {
	Issuer  string       `json:"issuer"`
	Server  string       `json:"server"` // the name of the server whose page is opened afterwards
	Client  string       `json:"client_id"`
	Request *codeRequest `json:"request"`
	Expires time.Time    `json:"expires"`
}

// sealCookie returns the value of a cookie.
func (b *Broker) sealCookie(purpose string, v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return b.values.seals.Seal(purpose, raw), nil
}

// openCookie decodes a cookie, and reports whether the request has it.
func (b *Broker) openCookie(r *http.Request, name, purpose string, v any) bool {
	c, err := r.Cookie(newCookie(b.base, name, "", 0).Name)
	if err != nil {
		return false
	}
	raw, err := b.values.seals.Open(purpose, c.Value)
	return err == nil && json.Unmarshal(raw, v) == nil
}

// browserUser returns the user of the browser, if it is known.
func (b *Broker) browserUser(r *http.Request) (principal.Principal, bool) {
	var known browserUser
	if !b.openCookie(r, userCookie, userPurpose, &known) || !time.Now().Before(known.Expires) || !slices.Contains(b.Resource.Issuers, known.Issuer) {
		return principal.Principal{}, false
	}
	user, err := principal.New(known.Issuer, known.Subject, "")
	return user, err == nil
}

// signIn returns the session for the authorization of browsers at an issuer, and its metadata. The operator has
// configured the issuer, so its address may be private.
func (b *Broker) signIn(ctx context.Context, issuer string) (*session, *discovery, error) {
	s, err := b.signInSession(issuer)
	if err != nil {
		return nil, nil, err
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	if s.discovery == nil || time.Since(s.discovered) > maxPendingLogin {
		m, err := s.peers.authorizationServer(ctx, issuer)
		if err != nil {
			return nil, nil, err
		}
		s.discovery, s.discovered = &discovery{resource: &resourceMetadata{Resource: b.audience}, server: m}, time.Now()
	}
	return s, s.discovery, nil
}

func (b *Broker) signInSession(issuer string) (*session, error) {
	b.signing.Lock()
	defer b.signing.Unlock()
	if s := b.signIns[issuer]; s != nil {
		return s, nil
	}
	c := b.New()
	c.Store, c.Interaction, c.Grant = &brokerStore{sealedValues: b.values}, nil, nil
	s, err := c.newSession(b.audience)
	if err != nil {
		return nil, err
	}
	if s.peers, err = s.peers.configured(issuer); err != nil {
		return nil, err
	}
	if b.signIns == nil {
		b.signIns = make(map[string]*session)
	}
	b.signIns[issuer] = s
	return s, nil
}

// beginSignIn returns the page of an issuer that identifies the user of the browser, and the cookie for the way back.
func (b *Broker) beginSignIn(ctx context.Context, issuer, server string) (page string, cookie *http.Cookie, err error) {
	s, d, err := b.signIn(ctx, issuer)
	if err != nil {
		return "", nil, err
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return "", nil, err
	}
	defer release()
	p, page, err := s.beginAt(ctx, d, b.URL+redirectPath, nil)
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(page)
	if err != nil {
		return "", nil, err
	}
	id := digest.Of(p.Request.State)
	value, err := b.sealCookie(signInPurpose+id, &browserSignIn{
		Issuer: issuer, Server: server, Client: u.Query().Get("client_id"), Request: p.Request, Expires: time.Now().Add(maxPendingLogin),
	})
	return page, newCookie(b.base, signInCookie+id[:22], value, int(maxPendingLogin/time.Second)), err
}

// finishSignIn returns the cookie of the user whom an issuer has identified.
func (b *Broker) finishSignIn(ctx context.Context, begun *browserSignIn, redirect string) (*http.Cookie, error) {
	if !time.Now().Before(begun.Expires) || !slices.Contains(b.Resource.Issuers, begun.Issuer) {
		return nil, store.ErrNotFound
	}
	s, d, err := b.signIn(ctx, begun.Issuer)
	if err != nil {
		return nil, err
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	c, err := s.existingClient(ctx, d)
	if err != nil {
		return nil, err
	}
	if c == nil || c.ID != begun.Client {
		return nil, fmt.Errorf("%w: the client has changed since the login began", ErrRegistration)
	}
	t, err := s.redeem(ctx, d, c, begun.Request, redirect, nil)
	if err != nil {
		return nil, err
	}
	user, err := b.verify(ctx, t.Access, begun.Issuer)
	if err != nil {
		return nil, err
	}
	value, err := b.sealCookie(userPurpose, &browserUser{Issuer: user.Issuer(), Subject: user.Subject(), Expires: time.Now().Add(signedInFor)})
	return newCookie(b.base, userCookie, value, int(signedInFor/time.Second)), err
}

// verify returns the user of an access token that an issuer has issued for the program.
func (b *Broker) verify(ctx context.Context, token, issuer string) (principal.Principal, error) {
	info, err := b.Resource.Verifier.Verify(ctx, token)
	switch {
	case err != nil:
		return principal.Principal{}, errors.New("cannot verify the access token of the browser's user") // err may have the token
	case info == nil || info.Principal.Issuer() != issuer:
		return principal.Principal{}, fmt.Errorf("%w: the access token of the browser's user is not from %.200q", ErrIssuerMismatch, issuer)
	case !slices.ContainsFunc(info.Audience, b.isAudience):
		return principal.Principal{}, fmt.Errorf("%w: the access token of the browser's user is not for %.200q", ErrInvalidResponse, b.audience)
	case info.KeyThumbprint != "":
		return principal.Principal{}, fmt.Errorf("%w: the access token of the browser's user is bound to an unknown key", ErrInvalidResponse)
	}
	return userOf(info.Principal)
}

// isAudience reports whether an audience is the URI of the program.
func (b *Broker) isAudience(audience string) bool {
	canonical, err := httpurl.Canonical(audience)
	own, errOwn := httpurl.Canonical(b.audience)
	return audience == b.audience || err == nil && errOwn == nil && canonical == own
}
