package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"html"
	"net/http"
	"net/url"
	"strings"
	"time"

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
		writePage(w, http.StatusInternalServerError, "Not available", "Logins are not configured correctly.")
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
	case httpurl.IsLoopback(b.base.Hostname()) && r.Host != b.base.Host: // from a page whose domain resolves to the loopback interface
		writePage(w, http.StatusForbidden, "Unknown host", "This address belongs to another host.")
		return
	case !below || !isSignIn && !isIndex && !ofServer || ofServer && b.Server(server) == "":
		writePage(w, http.StatusNotFound, "Page not found", "This address only serves logins. Check the address, or call the tool again.")
		return
	case isEnd && r.Method != http.MethodPost || r.Method != http.MethodGet && !((isStart || isEnd) && r.Method == http.MethodPost):
		w.Header().Set("Allow", "GET, POST")
		writePage(w, http.StatusMethodNotAllowed, "Not allowed", "Open this address in a browser.")
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
		writePage(w, http.StatusBadRequest, "Login not recognized", "This login was not started by you in this browser, or it has already ended. Start again in the program that needs it.")
	default:
		b.logger().WarnContext(r.Context(), "login failed", "server", server, "error", err)
		writePage(w, http.StatusBadGateway, "Login failed", "The login could not be completed. Try again, or ask the operator, whose log has the reason.")
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

// identify sends the browser to an issuer that identifies its user. The page of the server is opened afterwards, or, without
// a server, that of the logins.
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
	setPageHeaders(w.Header())
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
		setPageHeaders(w.Header())
		http.Redirect(w, r, b.startURL(server), http.StatusSeeOther)
		return nil
	}
	cookie := rand.Text()
	page, id, err := b.begin(ctx, user, server, cookie)
	if err != nil {
		return err
	}
	setPageHeaders(w.Header())
	http.SetCookie(w, newCookie(b.base, "login_"+id[:22], cookie, int(maxPendingLogin/time.Second)))
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
	setPageHeaders(w.Header())
	http.SetCookie(w, newCookie(b.base, signInCookie+id[:22], "", -1))
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
		return hasCookie(r, newCookie(b.base, name, "", 0).Name, browser)
	})
	if err != nil {
		return err
	}
	http.SetCookie(w, newCookie(b.base, name, "", -1))
	if err := b.complete(ctx, user, login, redirect); err != nil {
		return err
	}
	writePage(w, http.StatusOK, "Login complete", "You can close this window and return to the program.")
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
	setPageHeaders(w.Header())
	// The names are those of the operator and of an issuer; a page could be opened for another user.
	writeHTML(w, "Log in to "+html.EscapeString(server),
		`<p>This program calls <b>`+html.EscapeString(server)+`</b> at <code>`+html.EscapeString(withoutSecrets(b.Server(server)))+`</code> for you,
and needs your login there. It will use the login for your calls only. <a href="`+html.EscapeString(b.startURL(""))+`">Your logins</a> shows what is kept.</p>
<p>You are <b>`+html.EscapeString(user.Subject())+`</b>, as <code>`+html.EscapeString(user.Issuer())+`</code> says. Close this window if this is not you,
or if you did not ask for this.</p>
<form method="post" action="`+html.EscapeString(b.startURL(server))+`"><button>Continue</button></form>`)
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
		address := b.startURL(server) + "?issuer=" + digest.Of(issuer)
		links.WriteString(`<li><a href="` + html.EscapeString(address) + `">` + html.EscapeString(issuer) + `</a></li>`)
	}
	writeHTML(w, "Who are you?", "<p>Choose where you log in to this program.</p><ul>"+links.String()+"</ul>")
}

// writeHTML writes a page. The title and the body must be HTML.
func writeHTML(w http.ResponseWriter, title, body string) {
	setPageHeaders(w.Header())
	_, _ = w.Write([]byte(htmlDocument(title, body)))
}
