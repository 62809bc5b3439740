package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/auth/oauth/internal/webpage"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// brokerPageTimeout bounds the requests of a page to authorization servers and to the store.
const brokerPageTimeout = 60 * time.Second

// ServeHTTP serves the pages with which users log in, and the redirect URI.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := b.Check(); err != nil {
		webpage.Write(w, http.StatusInternalServerError, "Not available", "Logins are not configured correctly.")
		return
	}
	path, below := strings.CutPrefix(r.URL.Path, b.base.Path)
	server, isStart := strings.CutPrefix(path, brokerStartPath)
	isSignIn, isIndex := path == redirectPath, path == brokerIndexPath
	isRedirect, isEnd := false, false
	if !isStart {
		server, isRedirect = strings.CutPrefix(path, redirectPath+"/")
	}
	if !isStart && !isRedirect {
		server, isEnd = strings.CutPrefix(path, brokerEndPath)
	}
	ofServer := isStart || isRedirect || isEnd
	switch {
	case httpurl.IsLoopback(b.base.Hostname()) && r.Host != b.base.Host:
		// from a page whose domain resolves to the loopback interface
		webpage.Write(w, http.StatusForbidden, "Unknown host", "This address belongs to another host.")
		return
	case !below || !isSignIn && !isIndex && !ofServer || ofServer && b.Server(server) == "":
		webpage.Write(w, http.StatusNotFound, "Page not found",
			"This address only serves logins. Check the address, or call the tool again.")
		return
	case isEnd && r.Method != http.MethodPost || r.Method != http.MethodGet &&
		!((isStart || isEnd) && r.Method == http.MethodPost):
		w.Header().Set("Allow", "GET, POST")
		webpage.Write(w, http.StatusMethodNotAllowed, "Not allowed", "Open this address in a browser.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), brokerPageTimeout)
	defer cancel()
	var err error
	switch {
	case isSignIn:
		err = b.serveSignIn(ctx, w, r)
	case isIndex:
		err = b.serveLogins(ctx, w, r)
	case isEnd:
		err = b.serveEnd(ctx, w, r, server)
	case !isStart:
		err = b.serveRedirect(ctx, w, r, server)
	case r.Method == http.MethodPost:
		err = b.serveConsent(ctx, w, r, server)
	default:
		err = b.serveStart(ctx, w, r, server)
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
		webpage.Write(w, http.StatusBadRequest, "Login not recognized",
			"This login was not started by you in this browser, or it has already ended. Start again in the program "+
				"that needs it.")
	default:
		b.logger().WarnContext(r.Context(), "login failed", "server", server, "error", err)
		webpage.Write(w, http.StatusBadGateway, "Login failed",
			"The login could not be completed. Try again, or ask the operator, whose log has the reason.")
	}
}

// serveStart identifies the user of the browser, and asks for consent.
func (b *Broker) serveStart(ctx context.Context, w http.ResponseWriter, r *http.Request, server string) error {
	if user, ok := b.browserUser(r); ok {
		b.writeConsent(w, user, server)
		return nil
	}
	return b.identify(ctx, w, r, server)
}

// identify sends the browser to an issuer that identifies its user. The page of the server is opened afterwards, or,
// without a server, that of the logins.
func (b *Broker) identify(ctx context.Context, w http.ResponseWriter, r *http.Request, server string) error {
	issuers := b.Resource.Issuers
	issuer := issuers[0]
	if len(issuers) > 1 {
		chosen := r.URL.Query().Get("issuer")
		if issuer = ""; chosen != "" {
			for _, one := range issuers {
				if digest.Of(one) == chosen {
					issuer = one
				}
			}
		}
		if issuer == "" {
			b.writeIssuers(w, server)
			return nil
		}
	}
	page, cookie, err := b.beginSignIn(ctx, issuer, server)
	if err != nil {
		return err
	}
	webpage.SetHeaders(w.Header())
	http.SetCookie(w, cookie)
	http.Redirect(w, r, page, http.StatusSeeOther)
	return nil
}

// serveConsent sends the browser of a user who has consented to the authorization server.
func (b *Broker) serveConsent(ctx context.Context, w http.ResponseWriter, r *http.Request, server string) error {
	if b.forms.Check(r) != nil {
		return store.ErrNotFound
	}
	user, ok := b.browserUser(r)
	if !ok {
		webpage.SetHeaders(w.Header())
		http.Redirect(w, r, b.startURL(server), http.StatusSeeOther)
		return nil
	}
	cookie := rand.Text()
	page, id, err := b.begin(ctx, user, server, cookie)
	if err != nil {
		return err
	}
	webpage.SetHeaders(w.Header())
	http.SetCookie(w, webpage.NewCookie(b.base, "login_"+id[:22], cookie, int(maxPendingLogin/time.Second)))
	http.Redirect(w, r, page, http.StatusSeeOther)
	return nil
}

// startURL returns the URL of the page of a server; without a server, that of the page of logins.
func (b *Broker) startURL(server string) string {
	if server == "" {
		return b.URL + brokerIndexPath
	}
	return b.URL + brokerStartPath + url.PathEscape(server)
}

// serveSignIn receives the redirect of an issuer.
func (b *Broker) serveSignIn(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	redirect, id, err := redirectOf(r)
	if err != nil {
		return err
	}
	var begun browserSignIn
	if !b.openCookie(r, signInCookie+id[:22], signInPurpose+id, &begun) {
		return store.ErrNotFound
	}
	cookie, err := b.finishSignIn(ctx, &begun, redirect)
	if err != nil {
		return err
	}
	webpage.SetHeaders(w.Header())
	http.SetCookie(w, webpage.NewCookie(b.base, signInCookie+id[:22], "", -1))
	http.SetCookie(w, cookie)
	http.Redirect(w, r, b.startURL(begun.Server), http.StatusSeeOther)
	return nil
}

// serveRedirect receives the redirect of the authorization server of a server.
func (b *Broker) serveRedirect(ctx context.Context, w http.ResponseWriter, r *http.Request, server string) error {
	redirect, id, err := redirectOf(r)
	if err != nil {
		return err
	}
	user, ok := b.browserUser(r)
	if !ok {
		return store.ErrNotFound
	}
	name := "login_" + id[:22]
	login, err := b.take(ctx, user, server, id, func(browser string) bool {
		return webpage.CookieOf(r, webpage.NewCookie(b.base, name, "", 0).Name, browser) != ""
	})
	if err != nil {
		return err
	}
	http.SetCookie(w, webpage.NewCookie(b.base, name, "", -1))
	if err := b.complete(ctx, user, login, redirect); err != nil {
		return err
	}
	webpage.Write(w, http.StatusOK, "Login complete", "You can close this window and return to the program.")
	return nil
}

// redirectOf returns the query of a redirect, and the id of the login, a digest of its state.
func redirectOf(r *http.Request) (redirect, id string, err error) {
	response, err := parseAuthorizationResponse(r.URL.RawQuery)
	if err != nil || response.state == "" {
		return "", "", store.ErrNotFound
	}
	return "?" + r.URL.RawQuery, digest.Of(response.state), nil
}

// writeConsent asks a user to consent to a login.
func (b *Broker) writeConsent(w http.ResponseWriter, user principal.Principal, server string) {
	// A page could be opened for another user.
	webpage.WriteBody(w, http.StatusOK, "Log in to "+server, webpage.HTML(
		`<p>This program calls <b>%s</b> at <code>%s</code> for you, and needs your login there. It will use the login for
your calls only. <a href="%s">Your logins</a> shows what is kept.</p>
<p>You are <b>%s</b>, as <code>%s</code> says. Close this window if this is not you, or if you did not ask for this.</p>
<form method="post" action="%s"><button>Continue</button></form>`,
		server, withoutSecrets(b.Server(server)), b.startURL(""), user.Subject(), user.Issuer(), b.startURL(server)))
}

// withoutSecrets returns a URL without user information and query.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return withoutQuery(u)
}

// writeIssuers lets a user choose an issuer.
func (b *Broker) writeIssuers(w http.ResponseWriter, server string) {
	var links strings.Builder
	for _, issuer := range b.Resource.Issuers {
		links.WriteString(webpage.HTML(`<li><a href="%s">%s</a></li>`,
			b.startURL(server)+"?issuer="+digest.Of(issuer), issuer))
	}
	webpage.WriteBody(w, http.StatusOK, "Who are you?",
		"<p>Choose where you log in to this program.</p><ul>"+links.String()+"</ul>")
}

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
	return b.seals.Seal(purpose, raw), nil
}

// openCookie decodes a cookie, and reports whether the request has it.
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
	create := b.SignIn
	if create == nil {
		create = b.New
	}
	c := create()
	c.Store, c.Interaction, c.Grant = &brokerStore{jsonValues: b.values}, nil, nil
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
	var scopes []string
	with := s.owner.settingsAfter(nil)
	if with.NoResource {
		scopes = b.Resource.Scopes
	}
	p, page, err := s.beginAt(ctx, d, b.URL+redirectPath, scopes, with)
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(page)
	if err != nil {
		return "", nil, err
	}
	id := digest.Of(p.Request.State)
	value, err := b.sealCookie(signInPurpose+id, &browserSignIn{
		Issuer: issuer, Server: server, Client: u.Query().Get("client_id"), Request: p.Request,
		Expires: time.Now().Add(maxPendingLogin),
	})
	return page, webpage.NewCookie(b.base, signInCookie+id[:22], value, int(maxPendingLogin/time.Second)), err
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
	value, err := b.sealCookie(userPurpose, &browserUser{Issuer: user.Issuer(), Subject: user.Subject(),
		Expires: time.Now().Add(signedInFor)})
	return webpage.NewCookie(b.base, userCookie, value, int(signedInFor/time.Second)), err
}

// verify returns the user of an access token that an issuer has issued for the program.
func (b *Broker) verify(ctx context.Context, token, issuer string) (principal.Principal, error) {
	info, err := b.Resource.Verifier.Verify(ctx, token)
	switch {
	case err != nil:
		// err may have the token
		return principal.Principal{}, errors.New("cannot verify the access token of the browser's user")
	case info == nil || info.Principal.Issuer() != issuer:
		return principal.Principal{}, fmt.Errorf("%w: the access token of the browser's user is not from %.200q",
			ErrIssuerMismatch, issuer)
	case !slices.ContainsFunc(info.Audience, b.isAudience):
		return principal.Principal{}, fmt.Errorf("%w: the access token of the browser's user is not for %.200q",
			ErrInvalidResponse, b.audience)
	case info.KeyThumbprint != "":
		return principal.Principal{},
			fmt.Errorf("%w: the access token of the browser's user is bound to an unknown key", ErrInvalidResponse)
	}
	return userOf(info.Principal)
}

// isAudience reports whether an audience is one of Resource, or the URI of the program if it has none.
func (b *Broker) isAudience(audience string) bool {
	if own := b.Resource.Audiences; own != nil {
		return slices.Contains(own, audience)
	}
	canonical, err := httpurl.Canonical(audience)
	own, errOwn := httpurl.Canonical(b.audience)
	return audience == b.audience || err == nil && errOwn == nil && canonical == own
}
