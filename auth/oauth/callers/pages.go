package callers

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth/oauth/internal/webpage"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// Paths below Broker.URL.
const (
	indexPath    = "/"
	startPath    = "/start/" // followed by the name of a server
	redirectPath = "/callback"
	endPath      = "/end/" // followed by the name of a server
)

// pageTimeout bounds the requests of a page to authorization servers and to the store.
const pageTimeout = 60 * time.Second

// ServeHTTP serves the pages on which users log in, and the redirect URI.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := b.Check(); err != nil {
		webpage.Write(w, http.StatusInternalServerError, "Not available", "Logins are not configured correctly.")
		return
	}
	path, below := strings.CutPrefix(r.URL.Path, b.base.Path)
	server, isStart := strings.CutPrefix(path, startPath)
	isSignIn, isIndex := path == redirectPath, path == indexPath
	isRedirect, isEnd := false, false
	if !isStart {
		server, isRedirect = strings.CutPrefix(path, redirectPath+"/")
	}
	if !isStart && !isRedirect {
		server, isEnd = strings.CutPrefix(path, endPath)
	}
	ofServer := isStart || isRedirect || isEnd
	switch {
	case httpurl.IsLoopback(b.base.Hostname()) && r.Host != b.base.Host:
		// the request may come from a page whose domain resolves to the loopback interface
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
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
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

// identify sends the browser to an issuer that identifies its user. Afterwards, the browser opens the page of the
// server, or the list of logins if server is empty.
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

// startURL returns the URL of the page of a server, or of the list of logins if server is empty.
func (b *Broker) startURL(server string) string {
	if server == "" {
		return b.URL + indexPath
	}
	return b.URL + startPath + url.PathEscape(server)
}

// serveSignIn handles the redirect from an issuer.
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

// serveRedirect handles the redirect from the authorization server of a server.
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
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(query["state"]) != 1 {
		return "", "", store.ErrNotFound
	}
	return "?" + r.URL.RawQuery, digest.Of(query.Get("state")), nil
}

// writeConsent asks a user to consent to a login.
func (b *Broker) writeConsent(w http.ResponseWriter, user principal.Principal, server string) {
	// The page names the user, because somebody else could have opened it.
	webpage.WriteBody(w, http.StatusOK, "Log in to "+server, webpage.HTML(
		`<p>This program calls <b>%s</b> at <code>%s</code> for you, and needs your login there. It will use the login for
your calls only. <a href="%s">Your logins</a> shows what is kept.</p>
<p>You are <b>%s</b>, as <code>%s</code> says. Close this window if this is not you, or if you did not ask for this.</p>
<form method="post" action="%s"><button>Continue</button></form>`,
		server, withoutSecrets(b.Server(server)), b.startURL(""), user.Subject(), user.Issuer(), b.startURL(server)))
}

// serveLogins shows the logins that are kept for the user of the browser.
func (b *Broker) serveLogins(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	user, ok := b.browserUser(r)
	if !ok {
		return b.identify(ctx, w, r, "")
	}
	names, err := b.values.kv.List(ctx, loginsSet(user), "", maxLogins)
	if err != nil {
		return err
	}
	slices.Sort(names)
	var rows strings.Builder
	for _, name := range names {
		address := b.Server(name)
		if address == "" { // the server is no longer configured
			continue
		}
		login, err := b.client(user, name).Status(ctx, address)
		if err != nil {
			return err
		}
		if login == nil {
			continue
		}
		rows.WriteString(webpage.HTML(
			`<li><form method="post" action="%s"><b>%s</b> at <code>%s</code> <button>Log out</button></form></li>`,
			b.URL+endPath+url.PathEscape(name), name, withoutSecrets(address)))
	}
	body := webpage.HTML(`<p>You are <b>%s</b>, as <code>%s</code> says. `, user.Subject(), user.Issuer())
	if rows.Len() == 0 {
		body += "This program keeps no logins for you.</p>"
	} else {
		body += "This program keeps these logins for you, and uses them for your calls only.</p><ul>" + rows.String() +
			"</ul>"
	}
	webpage.WriteBody(w, http.StatusOK, "Your logins", body)
	return nil
}

// serveEnd ends the login of the user of the browser to a server.
func (b *Broker) serveEnd(ctx context.Context, w http.ResponseWriter, r *http.Request, server string) error {
	if b.forms.Check(r) != nil {
		return store.ErrNotFound
	}
	if user, ok := b.browserUser(r); ok {
		if err := b.client(user, server).Logout(ctx, b.Server(server)); err != nil {
			return err
		}
		if err := b.values.kv.Remove(ctx, loginsSet(user), server); err != nil {
			return err
		}
	}
	webpage.SetHeaders(w.Header())
	http.Redirect(w, r, b.URL+indexPath, http.StatusSeeOther)
	return nil
}

// withoutSecrets returns a URL without user information and query.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
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
