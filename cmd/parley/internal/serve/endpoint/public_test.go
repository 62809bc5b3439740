package endpoint

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/server"
)

// served is a command that serves HTTP with some flags.
type served struct {
	url    string // on this machine
	output *syncbuffer.Buffer
	flags  *Flags
	client *http.Client
}

// serveWith serves a server with flags until the test ends. A failure before that is in err.
func serveWith(t *testing.T, flags *Flags, args ...string) (*served, error) {
	t.Helper()
	return serveServer(t, &server.Server{Name: "served"}, flags, args...)
}

func serveServer(t *testing.T, s *server.Server, flags *Flags, args ...string) (_ *served, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd, output, showed, ended := &cobra.Command{Use: "serve"}, new(syncbuffer.Buffer), make(chan bool),
		make(chan error, 1)
	cmd.SetErr(output)
	cmd.SetContext(ctx)
	flags.Add(cmd)
	must.Do(t, cmd.ParseFlags(append([]string{"--addr", "127.0.0.1:0"}, args...)))
	s.Logger = program.NewLogger(output, slog.LevelWarn)
	go func() {
		ended <- flags.ServeAlone(cmd, s, func(*Status, string, bool) { close(showed) })
	}()
	select {
	case err = <-ended:
		cancel()
		return nil, err
	case <-showed:
	}
	client := &http.Client{Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel()
		must.Check(t, <-ended)
	})
	at := regexp.MustCompile(`https?://127\.0\.0\.1:\d+`).FindString(output.String())
	return &served{at, output, flags, client}, nil
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// request sends a request with headers, which are names and values, and returns the response with its body.
func (s *served) request(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp := must.Get(s.client.Do(r))(t)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp, string(text)
}

func TestRequestsMustNameAnAllowedHost(t *testing.T) {
	const advice = "--allow-host"
	for _, tc := range []struct{ flags, host, want string }{
		{"", "mcp.example.com", advice},
		{"", "", "200"},
		{"--allow-host mcp.example.com", "mcp.example.com", "200"},
		{"--allow-host mcp.example.com", "mcp.example.com:8443", "200"},
		{"--allow-host mcp.example.com", "", "200"},
		{"--allow-host mcp.example.com", "localhost", "200"},
		{"--allow-host mcp.example.com", "evil.example", advice},
		{"--allow-host mcp.example.com", "a.mcp.example.com", advice},
		{"--public-url https://mcp.example.com:8443/mcp", "mcp.example.com", "200"},
		{"--public-url https://mcp.example.com/mcp", "evil.example", advice},
		{"--auth issuer=https://login.example.com --auth resource=https://mcp.example.com/mcp", "mcp.example.com",
			"401"},
		{"--auth issuer=https://login.example.com --auth resource=https://mcp.example.com/mcp", "evil.example", advice},
	} {
		s := must.Get(serveWith(t, new(Flags), strings.Fields(tc.flags)...))(t)
		resp, body := s.request(t, "POST", s.url+Path, initialize, "Host", tc.host)
		if got := resp.Status + body; !strings.Contains(got, tc.want) || tc.want == advice &&
			resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s, Host %q: %s, want %s", tc.flags, tc.host, got, tc.want)
		}
	}
}

// A page of another origin uses an endpoint behind a proxy, which keeps the Host header and forwards paths as they are.
func TestABrowserUsesTheEndpointBehindAProxy(t *testing.T) {
	s, err := serveWith(t, new(Flags), "--public-url", "https://mcp.example.com/base", "--allow-origin",
		"https://app.example.com")
	must.Do(t, err)
	to, _ := url.Parse(s.url)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: s.client.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		}})
	defer proxy.Close()
	for _, tc := range []struct {
		origin  string
		allowed bool
	}{{"https://app.example.com", true}, {"https://evil.example", false}, {"http://localhost:6274", false},
		{"null", false}} {
		ask, body := s.request(t, "OPTIONS", proxy.URL+"/base", "", "Host", "mcp.example.com", "Origin", tc.origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"content-type,mcp-protocol-version")
		if tc.allowed {
			must.CheckThat(t, ask.StatusCode == http.StatusNoContent &&
				ask.Header.Get("Access-Control-Allow-Headers") == "content-type, mcp-protocol-version",
				"%s: %s %v", tc.origin, ask.Status, ask.Header)
			resp, body := s.request(t, "POST", proxy.URL+"/base", initialize, "Host", "mcp.example.com", "Origin",
				tc.origin)
			must.CheckThat(t, resp.StatusCode == http.StatusOK &&
				resp.Header.Get("Access-Control-Allow-Origin") == tc.origin && strings.Contains(body, `"serverInfo"`),
				"%s: %s %v %s", tc.origin, resp.Status, resp.Header, body)
		} else if ask.StatusCode != http.StatusForbidden || ask.Header.Get("Access-Control-Allow-Origin") != "" ||
			!strings.Contains(body, "--allow-origin") {
			t.Errorf("%s: %s %v %s", tc.origin, ask.Status, ask.Header, body)
		}
	}
}

func TestThePublicURLIsPrintedServedAndAnnounced(t *testing.T) {
	const resource = `"resource":"https://mcp.example.com/base"`
	s, err := serveWith(t, new(Flags), "--public-url", "https://mcp.example.com/base/", "--auth",
		"issuer=https://login.example.com")
	must.Do(t, err)
	must.CheckContains(t, s.output.String(), "  https://mcp.example.com/base\n\n  Listening on http://127.0.0.1:")
	for path, status := range map[string]int{"/base": 401, "/base/": 401, "/mcp": 401, "/mcp/": 401, "/": 404,
		"/other": 404, "/bases": 404} {
		resp, body := s.request(t, "POST", s.url+path, initialize, "Host", "mcp.example.com")
		must.CheckEqual(t, resp.StatusCode, status, path, resp.Status, body)
		challenge := resp.Header.Get("WWW-Authenticate")
		must.CheckThat(t, status != 401 || strings.Contains(challenge,
			`"https://mcp.example.com/.well-known/oauth-protected-resource/base"`), "%s: %s", path, challenge)
	}
	for path, want := range map[string]string{"": resource, "/base": resource, "/base/": resource, "/mcp": "404"} {
		resp, body := s.request(t, "GET", s.url+"/.well-known/oauth-protected-resource"+path, "", "Host",
			"mcp.example.com")
		must.CheckContains(t, resp.Status+body, want, path, resp.Status, body)
	}
}

// A slash at the end makes no other resource, whose tokens would differ.
func TestMetadataOfAnEndpointWithASlashIsThatOfTheEndpoint(t *testing.T) {
	s := must.Get(serveWith(t, new(Flags), "--auth", "issuer=https://login.example.com"))(t)
	resp, _ := s.request(t, "POST", s.url+"/mcp/", initialize)
	for _, at := range []string{regexp.MustCompile(`resource_metadata="(.*?)"`).FindStringSubmatch(resp.Header.Get("WWW-Authenticate"))[1],
		s.url + "/.well-known/oauth-protected-resource/mcp/"} {
		_, body := s.request(t, "GET", at, "")
		must.CheckContains(t, body, `"resource":"`+s.url+`/mcp"`, at)
	}
}

func TestPathsOfTheEndpointAndOfToolsets(t *testing.T) {
	for public, paths := range map[string]map[string]string{
		"": {
			"/mcp": "/mcp", "/mcp/": "/mcp", "/mcp//": "/mcp", "/mcp/docs": "/mcp/docs", "/mcp/docs/": "/mcp/docs",
			"/":               "/",
			"/mcpx/":          "/mcpx",
			"/login/tracker/": "/login/tracker",
			"/.well-known/oauth-protected-resource/mcp/": "/.well-known/oauth-protected-resource/mcp",
		},
		"https://h.example": {"/": "/mcp", "/docs": "/mcp/docs", "/mcp": "/mcp", "/mcp/docs/": "/mcp/docs",
			"/login/x": "/login/x", "/.well-known/oauth-protected-resource": "/.well-known/oauth-protected-resource"},
		"https://h.example/base": {"/base": "/mcp", "/base/docs/": "/mcp/docs", "/mcp/docs": "/mcp/docs", "/": "/",
			"/based": "/based"},
		"https://h.example/mcp":       {"/mcp": "/mcp", "/mcp/docs": "/mcp/docs"},
		"https://h.example/mcp/inner": {"/mcp/inner": "/mcp", "/mcp/inner/docs": "/mcp/docs", "/mcp": "/mcp"},
	} {
		flags := publicFlags{publicURL: public}
		for path, want := range paths {
			got := ""
			r := httptest.NewRequest("POST", path, nil)
			flags.handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got = r.URL.Path
			})).ServeHTTP(httptest.NewRecorder(), r)
			must.CheckThat(t, got == want && r.URL.Path == path,
				"%q: %s is served as %s, want %s", public, path, got, want)
		}
	}
}

// The client of a proxy may be another user.
func TestOnlyEndpointsOfThisMachineAreForItsUser(t *testing.T) {
	for flags, want := range map[string]bool{
		"": true, "--allow-origin https://app.example.com": true, "--public-url http://localhost:9000/mcp": true,
		"--allow-host mcp.example.com": false, "--public-url https://mcp.example.com": false,
	} {
		var user bool
		notes := func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				user = IsLocalUser(ctx)
				return next(ctx, c)
			}
		}
		s := must.Get(serveServer(t, &server.Server{Middleware: []call.Middleware{notes}}, new(Flags),
			strings.Fields(flags)...))(t)
		s.request(t, "POST", s.url+Path, initialize)
		warned := strings.Contains(s.output.String(), "without authorization")
		if got := user; got != want || warned == want {
			t.Errorf("%q: local user %v, want %v; warned %v", flags, got, want, warned)
		}
	}
}

func TestFlagsOfTheEndpointAreChecked(t *testing.T) {
	const issuer = " --auth issuer=https://login.example.com"
	for flags, want := range map[string]string{
		"--allow-host *":                             "--allow-host \"*",
		"--allow-host *.example.com":                 "--allow-host \"*",
		"--allow-host https://mcp.example.com":       `--allow-host "https://mcp.example.com" must be a host name`,
		"--allow-origin *":                           "without wildcards",
		"--allow-origin http://localhost:*":          "without wildcards",
		"--allow-origin null":                        `--allow-origin "null" must be an origin`,
		"--allow-origin https://app.example.com/":    `--allow-origin "https://app.example.com/" must be an origin`,
		"--public-url mcp.example.com":               "--public-url mcp.example.com must be a URL",
		"--public-url https://u:secret@h.example":    "must be a URL without query",
		"--public-url https://h.example/mcp?a=b":     "must be a URL without query",
		"--public-url https://h.example/login/x":     "must not be below /login",
		"--public-url http://h.example/mcp" + issuer: "https://",
		"--public-url https://h.example/mcp" + issuer +
			" --auth resource=https://other.example/mcp": "must have the scheme and host of --public-url " +
			"https://h.example/mcp",
		"--allow-host h.example" + issuer:              "add --public-url https://…",
		"--allow-host h.example --auth dev":            "--auth dev logs in any user",
		"--public-url https://h.example --auth dev":    "--auth dev logs in any user",
		"--auth dev --auth resource=https://h.example": "--auth dev logs in any user",
		"--tls-cert cert.pem":                          "--tls-cert and --tls-key must be used together",
		"--tls-cert no/cert.pem --tls-key no/key.pem":  "cannot read the certificate: open no/cert.pem",
	} {
		_, err := serveWith(t, new(Flags), strings.Fields(flags)...)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "secret"),
			"%s: %v, want %s", flags, err, want)
	}
}

// The page of logins has an address with a slash, and paths are served with and without one.
func TestNoPathRedirectsToItself(t *testing.T) {
	for _, flags := range [][]string{nil, {"--public-url", "http://mcp.example.com/tools"},
		{"--public-url", "http://mcp.example.com"}, {"--public-url", "http://mcp.example.com/login-of-tools"}} {
		var served []string
		login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served = append(served, r.URL.Path) })
		s := must.Get(serveWith(t, &Flags{Login: login}, flags...))(t)
		for _, path := range []string{"/login", "/login/", "/login/start/notes", "/login/start/notes/"} {
			request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil))(t)
			response := must.Get(s.client.Do(request))(t)
			must.Check(t, response.Body.Close())
			must.CheckEqual(t, response.StatusCode, http.StatusOK, flags, path)
		}
		must.CheckEqual(t, strings.Join(served, " "), "/login/ /login/ /login/start/notes /login/start/notes", flags)
	}
}
