package callers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/internal/webpage"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// The pages of a Broker identify the user of a browser by an access token for the program itself, from an issuer of
// the callers' tokens. The token is verified but not kept: a sealed cookie names the user. Nothing is stored for
// browsers whose user is unknown.

const (
	signedInFor   = 15 * time.Minute
	signInCookie  = "signin_" // followed by the beginning of the ID
	userCookie    = "user"
	userPurpose   = "callers.Broker user"
	signInPurpose = "callers.Broker sign-in "
)

// browserUser is the content of the cookie of a browser whose user is known.
type browserUser struct {
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Expires time.Time `json:"expires"`
}

// browserSignIn is the content of the cookie of a browser that is being sent to an issuer.
type browserSignIn struct {
	Issuer  string              `json:"issuer"`
	Server  string              `json:"server"` // name of the server whose page is opened afterwards
	Pending *oauth.PendingLogin `json:"pending"`
	Expires time.Time           `json:"expires"`
}

// sealCookie returns the value of a cookie.
func (b *Broker) sealCookie(purpose string, v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return b.seals.Seal(purpose, raw), nil
}

// openCookie decodes a cookie, and reports whether the request contains a valid one.
func (b *Broker) openCookie(r *http.Request, name, purpose string, v any) bool {
	c, err := r.Cookie(webpage.NewCookie(b.base, name, "", 0).Name)
	if err != nil {
		return false
	}
	raw, err := b.seals.Open(purpose, c.Value)
	return err == nil && json.Unmarshal(raw, v) == nil
}

// browserUser returns the user of the browser, if it is known.
func (b *Broker) browserUser(r *http.Request) (principal.Principal, bool) {
	var known browserUser
	if !b.openCookie(r, userCookie, userPurpose, &known) || !time.Now().Before(known.Expires) ||
		!slices.Contains(b.Resource.Issuers, known.Issuer) {
		return principal.Principal{}, false
	}
	user, err := principal.New(known.Issuer, known.Subject, "")
	return user, err == nil
}

// signIn returns the client that identifies the users of browsers at an issuer. The operator has configured the issuer,
// so its address may be private.
func (b *Broker) signIn(issuer string) *oauth.Client {
	return b.clients.get("sign-in "+issuer, func() *oauth.Client {
		create := b.SignIn
		if create == nil {
			create = b.New
		}
		c := create()
		c.Issuer, c.Store, c.Interaction, c.Grant = issuer, &signInStore{loginStore{values: b.values}}, nil, nil
		var scopes []string
		if c.NoResource {
			scopes = b.Resource.Scopes
		}
		// The token is not kept, so ask only for these scopes: Client would also ask for a refresh token.
		c.Approve = func(context.Context, oauth.AuthorizationRequest) ([]string, error) { return scopes, nil }
		return c
	})
}

// beginSignIn returns the page of an issuer that identifies the user of the browser, and the cookie for the way back.
func (b *Broker) beginSignIn(ctx context.Context, issuer, server string) (page string, cookie *http.Cookie, err error) {
	p, err := b.signIn(issuer).BeginLogin(ctx, b.audience, b.URL+redirectPath)
	if err != nil {
		return "", nil, err
	}
	id, page := digest.Of(p.State), p.URL
	p.URL = ""
	value, err := b.sealCookie(signInPurpose+id, &browserSignIn{
		Issuer: issuer, Server: server, Pending: p, Expires: time.Now().Add(maxPendingLogin),
	})
	return page, webpage.NewCookie(b.base, signInCookie+id[:22], value, int(maxPendingLogin/time.Second)), err
}

// finishSignIn returns the cookie of the user whom an issuer has identified.
func (b *Broker) finishSignIn(ctx context.Context, begun *browserSignIn, redirect string) (*http.Cookie, error) {
	if !time.Now().Before(begun.Expires) || !slices.Contains(b.Resource.Issuers, begun.Issuer) {
		return nil, store.ErrNotFound
	}
	t, err := b.signIn(begun.Issuer).FinishLogin(ctx, b.audience, begun.Pending, redirect)
	if err != nil {
		return nil, err
	}
	user, err := b.verify(ctx, t.AccessToken, begun.Issuer)
	if err != nil {
		return nil, err
	}
	value, err := b.sealCookie(userPurpose, &browserUser{Issuer: user.Issuer(), Subject: user.Subject(),
		Expires: time.Now().Add(signedInFor)})
	return webpage.NewCookie(b.base, userCookie, value, int(signedInFor/time.Second)), err
}

// verify returns the user of an access token that an issuer issued for the program.
func (b *Broker) verify(ctx context.Context, token, issuer string) (principal.Principal, error) {
	info, err := b.Resource.Verifier.Verify(ctx, token)
	switch {
	case err != nil:
		// err may contain the token
		return principal.Principal{}, errors.New("cannot verify the access token of the browser's user")
	case info == nil || info.Principal.Issuer() != issuer:
		return principal.Principal{}, fmt.Errorf("the access token of the browser's user is not from %.200q", issuer)
	case !slices.ContainsFunc(info.Audience, b.isAudience):
		return principal.Principal{}, fmt.Errorf("the access token of the browser's user is not for %.200q", b.audience)
	case info.KeyThumbprint != "":
		return principal.Principal{}, errors.New("the access token of the browser's user is bound to an unknown key")
	}
	return userOf(info.Principal)
}

// isAudience reports whether an audience is among the audiences of Resource or, if there are none, the
// URI of the program.
func (b *Broker) isAudience(audience string) bool {
	if own := b.Resource.Audiences; own != nil {
		return slices.Contains(own, audience)
	}
	canonical, err := httpurl.Canonical(audience)
	own, errOwn := httpurl.Canonical(b.audience)
	return audience == b.audience || err == nil && errOwn == nil && canonical == own
}
