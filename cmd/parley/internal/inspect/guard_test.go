package inspect

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/internal/must"
)

// requestTo sends a GET request with the given headers.
func (p *page) requestTo(url string, header map[string]string) (status int, head http.Header, body string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), waitLimit) // an event stream does not end by itself
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(p.t)
	for name, value := range header {
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(p.t)
	defer resp.Body.Close()
	text := must.Get(io.ReadAll(resp.Body))(p.t)
	return resp.StatusCode, resp.Header, string(text)
}

func TestOtherOriginsAndWrongTokensGetNothing(t *testing.T) {
	p := start(t, demoServer(t))
	right := "Bearer " + p.token
	for _, test := range []struct {
		name   string
		header map[string]string
		status int
	}{
		{"no token", nil, http.StatusUnauthorized},
		{"wrong token", map[string]string{"Authorization": "Bearer " + strings.Repeat("A", len(p.token))},
			http.StatusUnauthorized},
		{"token without scheme", map[string]string{"Authorization": p.token}, http.StatusUnauthorized},
		{"empty token", map[string]string{"Authorization": "Bearer "}, http.StatusUnauthorized},
		{"token in a cookie", map[string]string{"Cookie": "token=" + p.token}, http.StatusUnauthorized},
		{"another site", map[string]string{"Authorization": right, "Origin": "https://example.com"},
			http.StatusForbidden},
		{"another port", map[string]string{"Authorization": right, "Origin": p.apps}, http.StatusForbidden},
		{"a sandbox", map[string]string{"Authorization": right, "Origin": "null"}, http.StatusForbidden},
		{"a cross-site request", map[string]string{"Authorization": right, "Sec-Fetch-Site": "cross-site"},
			http.StatusForbidden},
		{"a same-site request", map[string]string{"Authorization": right, "Sec-Fetch-Site": "same-site"},
			http.StatusForbidden},
		{"another name of this machine", map[string]string{"Authorization": right, "Host": "rebound.example.com"},
			http.StatusForbidden},
	} {
		for _, path := range []string{"/api/search?text=a", "/api/events", "/api/export", "/api/calls/1/result"} {
			status, head, body := p.requestTo(p.url+path, test.header)
			must.CheckThat(t, status == test.status && len(body) <= 100,
				"%s: %s: status %d, want %d: %s", test.name, path, status, test.status, body)
			for name := range head {
				must.CheckThat(t, !strings.HasPrefix(name, "Access-Control-"),
					"%s: %s: header %s", test.name, path, name)
			}
		}
	}
	status, _, body := p.requestTo(p.url+"/api/search?text=a",
		map[string]string{"Authorization": right, "Origin": p.url,
			"Sec-Fetch-Site": "same-origin"})
	must.CheckThat(t, status == http.StatusOK, "the page gets %d: %s", status, body)
}

func TestAddressWorksForTheFirstBrowserThatOpensIt(t *testing.T) {
	opened := 0
	i := &Inspector{Opened: func() { opened++ }}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	h := newHub(t.Context(), nil)
	server := &http.Server{Handler: i.guarded(listener, h)}
	go server.Serve(listener)
	defer server.Close()
	p := &page{t: t}
	start := i.URL(listener)
	must.CheckThat(t, !strings.Contains(start, i.Token()), "the address %s has the token", start)
	if status, _, _ := p.requestTo(start,
		map[string]string{"Sec-Purpose": "prefetch"}); status != http.StatusForbidden {
		t.Errorf("a prefetch: status %d", status)
	}
	if status, _, _ := p.requestTo(start+"x", nil); status != http.StatusForbidden {
		t.Errorf("a wrong address: status %d", status)
	}
	// The file that redirects to the address is of another origin.
	open := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
		"Sec-Fetch-Dest": "document"}
	status, head, _ := p.requestTo(start, open)
	if status != http.StatusSeeOther || head.Get("Location") != "/#token="+i.Token() {
		t.Errorf("the first request: status %d, location %q", status, head.Get("Location"))
	}
	cookie, _, _ := strings.Cut(head.Get("Set-Cookie"), ";")
	if !strings.HasSuffix(head.Get("Set-Cookie"), "; Path=/start/"+start[strings.LastIndex(start, "/")+1:]+
		"; HttpOnly; SameSite=Lax") {
		t.Errorf("the cookie is %s", head.Get("Set-Cookie"))
	}
	for _, wrong := range []string{"", "inspector=", cookie + "x"} {
		status, head, body := p.requestTo(start,
			map[string]string{"Cookie": wrong})
		must.CheckThat(t, status == http.StatusForbidden && !strings.Contains(head.Get("Location")+body, i.Token()),
			"another browser: status %d, %v, %s", status, head, body)
	}
	open["Cookie"] = cookie
	if status, head, _ := p.requestTo(start, open); status != http.StatusSeeOther ||
		head.Get("Location") != "/#token="+i.Token() {
		t.Errorf("the same browser: status %d, location %q", status, head.Get("Location"))
	}
	delete(open, "Cookie")
	if status, _, _ := p.requestTo("http://"+listener.Addr().String()+"/", open); status != http.StatusOK {
		t.Errorf("the page: status %d", status)
	}
	open["Sec-Fetch-Dest"] = "iframe"
	if status, _, _ := p.requestTo("http://"+listener.Addr().String()+"/", open); status != http.StatusForbidden {
		t.Errorf("the page in a frame: status %d", status)
	}
	must.CheckEqual(t, opened, 1)
}

func TestPageHasAStrictPolicy(t *testing.T) {
	p := start(t)
	for _, path := range []string{"/", "/app.js", "/app.css", "/icon.svg"} {
		status, head, body := p.requestTo(p.url+path, nil)
		policy := head.Get("Content-Security-Policy")
		must.CheckThat(t, status == http.StatusOK && body != "" && head.Get("X-Content-Type-Options") == "nosniff" &&
			strings.Contains(policy, "default-src 'none'") && strings.Contains(policy, "frame-ancestors 'none'") &&
			!strings.Contains(policy, "unsafe"), "%s: status %d, headers %v", path, status, head)
	}
	for _, path := range []string{"/dist/app.js", "/../inspector.go", "/frame.html/", "/nothing"} {
		status, _, _ := p.requestTo(p.url+path, nil)
		must.CheckThat(t, status == http.StatusNotFound, "%s: status %d", path, status)
	}
	status, _, _ := p.requestTo(p.url+"/",
		map[string]string{"Host": "rebound.example.com"})
	must.CheckThat(t, status == http.StatusForbidden, "another host: status %d", status)
}

func TestFramesOfAppsLoadOnlyFromDeclaredOrigins(t *testing.T) {
	p := start(t)
	status, body := p.do(http.MethodPost, "/api/frames", []byte(`{"connectDomains":["https://api.example.com",`+
		`"https://a.example; script-src *","https://[","wss://x@a.example","https://a.example/path"],`+
		`"resourceDomains":["https://*.cdn.example.com"],"frameDomains":["http://plain.example.com","https://*"],`+
		`"baseUriDomains":["https://base.example.com"]}`))
	const query = "/?base=https%3A%2F%2Fbase.example.com&connect=https%3A%2F%2Fapi.example.com" +
		"&resource=https%3A%2F%2F%2A.cdn.example.com"
	if want := `{"address":"` + p.apps + strings.ReplaceAll(query, "&", `\u0026`) + `","allowed":{"connectDomains":` +
		`["https://api.example.com"],"resourceDomains":["https://*.cdn.example.com"],` +
		`"baseUriDomains":["https://base.example.com"]}}`; status != http.StatusOK || string(body) != want {
		t.Errorf("got %d %s, want %s", status, body, want)
	}
	_, head, _ := p.requestTo(p.apps+query+
		"&connect=https%3A%2F%2Fa.example%3B%20script-src%20*&frame=http%3A%2F%2Fa.b", nil)
	want := apps.CSP{Connect: []string{"https://api.example.com"}, Resource: []string{"https://*.cdn.example.com"},
		Base: []string{"https://base.example.com"}}.Policy() + "; frame-ancestors " + p.url
	must.CheckEqual(t, head.Get("Content-Security-Policy"), want)
	if got, want := head.Get("Connection-Allowlist"),
		`(response-origin "https://api.example.com" "https://*.cdn.example.com")`; got != want {
		t.Errorf("connections %s, want %s", got, want)
	}
	must.CheckThat(t, head.Get("X-DNS-Prefetch-Control") == "off" &&
		strings.Contains(head.Get("Permissions-Policy"), "camera=()"), "the headers are %v", head)
	if status, _, _ := p.requestTo(p.apps+"/api/events",
		map[string]string{"Authorization": "Bearer " + p.token}); status != http.StatusNotFound {
		t.Errorf("the origin of the frames answers requests of the page: %d", status)
	}
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// maxPage is the size of the files of the page, compressed, in bytes.
const maxPage = 400 << 10

func TestPageIsSmall(t *testing.T) {
	size := int64(0)
	err := fs.WalkDir(dist, "dist", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	must.CheckThat(t, err == nil && size <= maxPage && size >= 10<<10,
		"the page has %d bytes, the limit is %d: %v", size, maxPage, err)
}

func TestLoginsHaveTheClientOfTheUser(t *testing.T) {
	one := demoServer(t)
	received := make(chan LoginOptions, 1)
	one.Login = func(_ context.Context, o LoginOptions) error {
		o.Open, o.Step = nil, nil
		received <- o
		return errors.New("not here")
	}
	p := start(t, one)
	if status, got := p.do(http.MethodPost, "/api/servers/demo/login",
		[]byte(`{"clientSecret":"s"}`)); status < http.StatusBadRequest ||
		!strings.Contains(string(got), "a client secret requires a client ID") {
		t.Errorf("without a client ID: got %d %s", status, got)
	}
	status, got := p.do(http.MethodPost, "/api/servers/demo/login",
		[]byte(`{"scopes":"a  b","clientId":"mine","clientSecret":"s",`+
			`"redirectUri":"http://localhost:8080/x"}`))
	must.That(t, status == http.StatusOK, "got %d %s", status, got)
	want := LoginOptions{Scopes: []string{"a", "b"}, ClientID: "mine", ClientSecret: "s",
		RedirectURI: "http://localhost:8080/x"}
	must.CheckEqual(t, cmp.Diff(want, <-received), "")
}
