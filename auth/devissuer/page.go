package devissuer

import (
	_ "embed"
	"fmt"
	"html"
	"net/http"
	"strings"
)

// The pages do not use html/template: the linker would then keep every exported method in the program.

//go:embed style.css
var style string

const pageHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>%s</title>
<link rel="stylesheet" href="/style.css">
<p class="warning">This authorization server is for development. It has no passwords and protects nothing.</p>
<main>
`

// markup formats HTML. Each %s is a value, which is escaped for text and for attributes in quotes.
func markup(format string, values ...string) string {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(v)
	}
	return fmt.Sprintf(format, escaped...)
}

// consentPage is the data of the consent page.
type consentPage struct {
	Issuer, ID             string
	Client, ClientID       string
	Document               bool // the name of the client comes from the document at its id
	Resource               string
	Redirect, RedirectHost string
	RedirectsToThisMachine bool
	Users, Scopes          []string
}

// html returns the page.
func (p *consentPage) html() string {
	var b strings.Builder
	add := func(format string, values ...string) { b.WriteString(markup(format, values...)) }
	add(pageHead, "Allow "+p.Client+"?")
	add("<h1>Allow <q>%s</q>?</h1>\n", p.Client)
	add("<form method=\"post\" action=\"/authorize\">\n<input type=\"hidden\" name=\"id\" value=\"%s\">\n", p.ID)
	add("<dl>\n<dt>Server</dt>\n<dd><code>%s</code></dd>\n", p.Resource)
	origin := "its name is not verified"
	if p.Document {
		origin = "its name comes from the document at this address"
	}
	add("<dt>Client</dt>\n<dd><code>%s</code> (%s)</dd>\n", p.ClientID, origin)
	add("<dt>Redirect to</dt>\n<dd><strong>%s</strong>", p.RedirectHost)
	if p.RedirectsToThisMachine {
		add(", a program on this machine. Any program on this machine can use this address.")
	}
	add("<br><code>%s</code></dd>\n</dl>\n", p.Redirect)
	if len(p.Users) == 1 {
		add("<input type=\"hidden\" name=\"user\" value=\"%s\"><p>Log in as <strong>%s</strong>.</p>\n", p.Users[0], p.Users[0])
	} else {
		add("<label for=\"user\">Log in as</label>\n<select id=\"user\" name=\"user\">")
		for _, user := range p.Users {
			add("<option>%s</option>", user)
		}
		add("</select>\n")
	}
	if len(p.Scopes) > 0 {
		add("<fieldset>\n<legend>Scopes</legend>\n")
		for _, scope := range p.Scopes {
			add("<label><input type=\"checkbox\" name=\"scope\" value=\"%s\" checked> %s</label>\n", scope, scope)
		}
		add("</fieldset>\n")
	}
	add(`<p class="decision">
<button id="allow" name="decision" value="allow">Allow</button>
<button id="deny" name="decision" value="deny">Deny</button>
</p>
</form>
</main>
<footer>%s</footer>
</html>
`, p.Issuer)
	return b.String()
}

// showMessage shows a page with a message.
func (i *Issuer) showMessage(w http.ResponseWriter, status int, title, text string) {
	i.show(w, status, markup(pageHead+"<h1>%s</h1>\n<p>%s</p>\n</main>\n</html>\n", title, title, text))
}

// showError shows a page with an error.
func (i *Issuer) showError(w http.ResponseWriter, text string) {
	i.showMessage(w, http.StatusBadRequest, "Login failed", text)
}

func (i *Issuer) serveHome(w http.ResponseWriter, r *http.Request) {
	i.showMessage(w, http.StatusOK, "An authorization server for development", "Its metadata is at "+i.url+metadataPath+".")
}

// show responds with a page that cannot be framed and runs no scripts.
func (i *Issuer) show(w http.ResponseWriter, status int, page string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	// Without form-action: browsers would also apply it to the redirect after the form.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	w.WriteHeader(status)
	if _, err := w.Write([]byte(page)); err != nil {
		i.logger.Debug("cannot send a page", "error", err)
	}
}

func serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write([]byte(style))
}
