package webpage_test

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth/internal/webpage"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/must"
)

// Over https, another host of the domain cannot set the cookie.
func TestCookies(t *testing.T) {
	for base, want := range map[string]string{
		"https://example.com/login":   "__Host-login=a; Path=/; Max-Age=300; HttpOnly; Secure; SameSite=Lax",
		"http://127.0.0.1:8080/login": "login=a; Path=/; Max-Age=300; HttpOnly; SameSite=Lax",
	} {
		u := must.Get(url.Parse(base))(t)
		c := webpage.NewCookie(u, "login", "a", 300)
		must.CheckEqual(t, c.String(), want)
		r := httptest.NewRequest("GET", base, nil)
		r.Header.Set("Cookie", c.Name+"=other; "+c.Name+"=a")
		must.CheckEqual(t, webpage.CookieOf(r, c.Name, digest.Of("a")), "a")
		must.CheckEqual(t, webpage.CookieOf(r, c.Name, digest.Of("b")), "")
		must.CheckEqual(t, webpage.CookieOf(r, c.Name, ""), "")
	}
}

func TestValuesOfPagesAreEscaped(t *testing.T) {
	const value, escaped = `"'<&>`, "&#34;&#39;&lt;&amp;&gt;"
	must.CheckEqual(t, webpage.HTML(`<a href="%s">%s</a>`, value, value), `<a href="`+escaped+`">`+escaped+`</a>`)
	shown := httptest.NewRecorder()
	webpage.Write(shown, 200, value, value)
	must.CheckContains(t, shown.Body.String(), "<title>"+escaped+"</title>")
	must.CheckContains(t, shown.Body.String(), "<h1>"+escaped+"</h1><p>"+escaped+"</p>")
}
