// Package inspect is the web inspector of parley: it connects to servers, records their messages, and serves a page
// that shows and calls them.
package inspect

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/auth/oauth/trace"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/mcp"
)

const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 3 * time.Second
	maxHeader         = 64 << 10
	maxServers        = 100
)

// Server is a server that the page shows.
type Server struct {
	// Name identifies the server in the page.
	Name string
	// Words are the words that name the server on the command line of another command, for copies of calls: a URL, a
	// name, or -- and a command.
	Words []string
	// Flags are the flags that the name requires.
	Flags  []string
	Target client.Target
	// Dialer returns the settings of a new connection. The page sets the functions that ask the user.
	Dialer func(context.Context) (*client.Dialer, error)
	// Login logs in to the server; nil if that is impossible.
	Login func(context.Context, LoginOptions) error
}

// LoginOptions are the options of a login.
type LoginOptions struct {
	Scopes []string // to request, in addition to those that the server requires
	// ClientID and ClientSecret identify a client that the user has registered. Without a ClientID, the login finds or
	// registers a client.
	ClientID, ClientSecret string
	// RedirectURI is the one to use, with a host of the loopback interface; empty means http://127.0.0.1/callback with
	// any port.
	RedirectURI string
	config.LoginSettings
	// Open shows the page at which the user logs in.
	Open func(ctx context.Context, url string) error
	// Step is called after each step of the login.
	Step func(trace.Step)
}

// Inspector serves the page. Its fields must not change while Run runs.
type Inspector struct {
	Servers []Server
	Version string
	// Revision is the revision that connections use unless the page chooses another one; empty means the newest.
	Revision mcp.Revision
	// Record receives the traffic with the servers, possibly concurrently; may be nil. A message is valid until Record
	// returns. The Peer of an event is the name of the server, unless that is the only one of Servers.
	Record func(recording.Event)
	// Add returns the server at a URL that the user adds in the page.
	Add func(ctx context.Context, url string) (Server, error)
	// CallerHeaders returns the names of headers that have keys of callers in a configuration; may be nil.
	CallerHeaders func() []string
	// Opened is called when a browser has opened the page; may be nil.
	Opened func()

	once  sync.Once
	token string
	start string // path of URL
}

// Token returns the token of the page.
func (i *Inspector) Token() string {
	i.once.Do(func() { i.token, i.start = rand.Text(), startPath+rand.Text() })
	return i.token
}

// URL returns the address that leads the first browser that opens it to the page. The address of the page itself, which
// has the token, is in no command line and on no terminal.
func (i *Inspector) URL(page net.Listener) string {
	i.Token()
	return "http://" + page.Addr().String() + i.start
}

// Run serves the page and the frames of MCP Apps until ctx is done. Both listeners must be on loopback interfaces; Run
// closes them.
func (i *Inspector) Run(ctx context.Context, page, apps net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	h := newHub(ctx, time.Now)
	h.hello = hello{Version: i.Version, Revisions: mcp.Revisions(), Apps: "http://" + apps.Addr().String()}
	h.add, h.revision = i.Add, i.Revision
	if i.CallerHeaders != nil {
		h.callerHeaders = i.CallerHeaders
	}
	for _, s := range i.Servers {
		h.addOne(s)
	}
	if i.Record != nil {
		h.record = func(server string, e recording.Event) {
			if len(i.Servers) != 1 || server != i.Servers[0].Name {
				e.Peer = server
			}
			i.Record(e)
		}
	}
	handlers := map[net.Listener]http.Handler{
		page: i.guarded(page, h),
		apps: appFrames(apps.Addr().String(), "http://"+page.Addr().String()),
	}
	var serving sync.WaitGroup
	failed := make(chan error, len(handlers))
	var servers []*http.Server
	for listener, handler := range handlers {
		s := &http.Server{
			Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
			MaxHeaderBytes: maxHeader, ErrorLog: stdlog.New(io.Discard, "", 0), // broken connections are not logged
		}
		servers = append(servers, s)
		serving.Go(func() {
			if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	cancel() // ends the event streams and the calls
	shutdown, stop := context.WithTimeout(context.Background(), shutdownTimeout)
	defer stop()
	for _, s := range servers {
		if s.Shutdown(shutdown) != nil {
			_ = s.Close()
		}
	}
	serving.Wait()
	h.close()
	return err
}

// guarded returns the handler of the page.
func (i *Inspector) guarded(page net.Listener, h *hub) http.Handler {
	hosts := []string{page.Addr().String()}
	if _, port, err := net.SplitHostPort(hosts[0]); err == nil {
		hosts = append(hosts, "localhost:"+port)
	}
	token := sha256.Sum256([]byte(i.Token()))
	opened := i.Opened
	if opened == nil {
		opened = func() {}
	}
	return &guard{
		hosts: hosts, token: token, next: h.api(), open: assets(h.hello.Apps),
		start: i.start, address: "/#token=" + i.Token(), browser: rand.Text(), opened: opened,
	}
}

// addOne adds a server. Its name is made unique.
func (h *hub) addOne(s Server) *server {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := s.Name
	taken := func(other *server) bool { return other.Name == s.Name }
	for n := 2; slices.ContainsFunc(h.servers, taken); n++ {
		s.Name = fmt.Sprintf("%s (%d)", name, n)
	}
	if t, ok := s.Target.(*client.CommandTarget); ok {
		recorded := *t
		record := recorder{log: h.log, server: s.Name}
		recorded.Stderr = func(line string) { record.note(kindProgram, false, "stderr", []byte(line), nil) }
		s.Target = &recorded
	}
	added := &server{Server: s, hub: h, state: stateIdle, settings: defaultSettings(h.revision)}
	h.servers = append(h.servers, added)
	return added
}

// addServer adds the server at a URL.
func (h *hub) addServer(r *http.Request, in struct {
	URL string `json:"url"`
}) (out struct {
	Name string `json:"name"`
}, err error) {
	if len(h.allServers()) >= maxServers {
		return out, fmt.Errorf("cannot add more than %d servers", maxServers)
	}
	s, err := h.add(r.Context(), in.URL)
	if err != nil {
		return out, err
	}
	out.Name = h.addOne(s).Name
	h.wake()
	return out, nil
}

// The files of the page. dist has the results of web/generate, compressed with gzip.
//
//go:generate go run ./web/generate
//go:embed dist
var dist embed.FS

// contentTypes are the types of the files of the page.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// assets returns the handler of the files of the page. apps is the origin of the frames that the page may have.
func assets(apps string) http.Handler {
	policy := strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
		"img-src 'self' data: blob:",
		"media-src data: blob:",
		"frame-src " + apps, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
		"require-trusted-types-for 'script'", "trusted-types 'none'",
	}, "; ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "index.html")
		file, err := dist.ReadFile("dist/" + name + ".gz")
		kind := contentTypes[path.Ext(name)]
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		case err != nil || kind == "" || strings.Contains(name, "/"):
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Content-Encoding", "gzip") // every browser accepts it
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		_, _ = w.Write(file)
	})
}

// guard admits the requests of the page only. The token is in the fragment of the page's URL, which browsers do not
// send: the page sends it in the Authorization header. Unlike a cookie, no other port of this machine receives it.
type guard struct {
	hosts []string // the values of the Host header, as in "127.0.0.1:7799"
	token [sha256.Size]byte
	next  http.Handler
	open  http.Handler // the files of the page, which are the same for everyone

	start   string // the path that leads to address, for the first browser that opens it
	address string
	browser string // the cookie of that browser
	opened  func() // called once
	started atomic.Bool
}

// startCookie is the name of the cookie of the browser that has opened the page. Its path is that of the address, so
// that it reaches other ports of this machine as little as the token does.
const startCookie = "inspector"

// startPath is the beginning of the path that leads to the page.
const startPath = "/start/"

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !slices.Contains(g.hosts, r.Host): // DNS rebinding
		http.Error(w, "the Host header must name the inspector", http.StatusForbidden)
	case !sameOrigin(r) && !opensPage(r):
		http.Error(w, "requests of other origins are not allowed", http.StatusForbidden)
	case strings.HasPrefix(r.URL.Path, startPath):
		g.serveStart(w, r)
	case !strings.HasPrefix(r.URL.Path, "/api/"):
		g.open.ServeHTTP(w, r)
	case !g.hasToken(r):
		http.Error(w, "open the address that parley inspect has printed", http.StatusUnauthorized)
	default:
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		g.next.ServeHTTP(w, r)
	}
}

// serveStart leads the first browser that opens the right path to the page.
func (g *guard) serveStart(w http.ResponseWriter, r *http.Request) {
	isRight := subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(g.start)) == 1 && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Purpose") == ""
	switch {
	case isRight && g.started.CompareAndSwap(false, true):
		http.SetCookie(w, &http.Cookie{Name: startCookie, Value: g.browser, Path: g.start, HttpOnly: true,
			SameSite: http.SameSiteLaxMode})
		g.opened()
	case isRight && g.hasCookie(r):
	default:
		http.Error(w,
			"this address works in the first browser that opens it; if that was not yours, end parley inspect "+
				"and start it again", http.StatusForbidden)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", g.address)
	w.WriteHeader(http.StatusSeeOther)
}

func (g *guard) hasCookie(r *http.Request) bool {
	for _, c := range r.CookiesNamed(startCookie) {
		if subtle.ConstantTimeCompare([]byte(c.Value), []byte(g.browser)) == 1 {
			return true
		}
	}
	return false
}

// opensPage reports whether a browser opens the page in a tab, which the file that parley opens does: its origin is
// another one. The page is the same for everyone, and has no effect without the token.
func opensPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("Origin") == "" && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// sameOrigin reports whether a request is from the page, or of a user who enters the address.
func sameOrigin(r *http.Request) bool {
	for _, origin := range r.Header["Origin"] {
		if origin != "http://"+r.Host {
			return false
		}
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	return true
}

func (g *guard) hasToken(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(got[:], g.token[:]) == 1
}

// setLevel sets the level of the log messages of a server.
func (s *server) setLevel(r *http.Request, in struct {
	Level mcp.LoggingLevel `json:"level"`
}) (none, error) {
	c, err := s.connected()
	if err != nil {
		return none{}, err
	}
	return none{}, explained(c.SetLogLevel(r.Context(), in.Level))
}
