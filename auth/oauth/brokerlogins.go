package oauth

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

const (
	brokerIndexPath = "/"
	brokerEndPath   = "/end/" // followed by the name of a server

	maxLogins = 1000 // of one user, that the page of logins shows
)

// loginsSet is the set of the names of the servers to which a user has logged in. A name can remain after the login has
// ended, so a page shows the servers with a token only.
func loginsSet(user principal.Principal) string { return user.Key() + "oauth/logins" }

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
		if address == "" { // it is not configured any more
			continue
		}
		login, err := b.client(user, name).Status(ctx, address)
		if err != nil {
			return err
		}
		if login == nil {
			continue
		}
		rows.WriteString(`<li><form method="post" action="` + html.EscapeString(b.URL+brokerEndPath+url.PathEscape(name)) + `"><b>` + html.EscapeString(name) +
			`</b> at <code>` + html.EscapeString(withoutSecrets(address)) + `</code> <button>Log out</button></form></li>`)
	}
	body := `<p>You are <b>` + html.EscapeString(user.Subject()) + `</b>, as <code>` + html.EscapeString(user.Issuer()) + `</code> says. `
	if rows.Len() == 0 {
		body += `This program keeps no logins for you.</p>`
	} else {
		body += `This program keeps these logins for you, and uses them for your calls only.</p><ul>` + rows.String() + `</ul>`
	}
	writeHTML(w, "Your logins", body)
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
	setPageHeaders(w.Header())
	http.Redirect(w, r, b.URL+brokerIndexPath, http.StatusSeeOther)
	return nil
}

// isLogin reports whether a key is that of the record of a user's login.
func (b *brokerStore) isLogin(key string) bool {
	return b.server != "" && strings.HasPrefix(key, serverKey(""))
}

// remember adds the server to the logins of the user.
func (b *brokerStore) remember(ctx context.Context) error {
	err := b.kv.Add(ctx, loginsSet(b.user), b.server, store.AddOptions{TTL: maxIdleLogin, Max: maxLogins})
	if errors.Is(err, store.ErrFull) { // the user can end other logins first
		return nil
	}
	return err
}
