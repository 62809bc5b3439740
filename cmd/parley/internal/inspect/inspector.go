// Package inspect is the web inspector of parley: it connects to servers, records their messages, and serves a page that
// shows and calls them.
package inspect

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
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
	// Explain returns the text of an error for the user, and NeedsLogin reports whether a login may help.
	Explain    func(error) string
	NeedsLogin func(error) bool
}

// LoginOptions are the options of a login.
type LoginOptions struct {
	Scopes []string // to request, in addition to those that the server requires
	// ClientID and ClientSecret are those of a client that the user has registered. Without a ClientID, the login finds or
	// registers a client.
	ClientID, ClientSecret string
	// RedirectURI is the one to use, with a host of the loopback interface; empty means http://127.0.0.1/callback with any
	// port.
	RedirectURI string
	// Open shows the page at which the user logs in.
	Open func(ctx context.Context, url string) error
	// Step is called after each step of the login.
	Step func(oauth.Step)
}

// Inspector serves the page. Its fields must not change while Run runs.
type Inspector struct {
	Servers []Server
	Version string
	// Revision is the revision that connections use unless the page chooses another one; empty means the newest.
	Revision mcp.Revision
	// Record receives the traffic with the servers, possibly concurrently; may be nil. A message is valid until Record returns. The Peer
	// of an event is the name of the server, unless that is the only one of Servers.
	Record func(traffic.Event)
	// Add returns the server at a URL that the user adds in the page.
	Add func(ctx context.Context, url string) (Server, error)
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

// Run serves the page and the frames of MCP Apps until ctx is done. Both listeners must be on loopback interfaces; Run closes
// them.
func (i *Inspector) Run(ctx context.Context, page, apps net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	h := newHub(ctx, time.Now)
	h.hello = hello{Version: i.Version, Revisions: mcp.Revisions(), Apps: "http://" + apps.Addr().String()}
	h.add, h.revision = i.Add, i.Revision
	for _, s := range i.Servers {
		h.addOne(s)
	}
	if i.Record != nil {
		h.record = func(server string, e traffic.Event) {
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
			Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
			ErrorLog: stdlog.New(io.Discard, "", 0), // broken connections are not logged
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
	for n := 2; ; n++ {
		taken := false
		for _, other := range h.servers {
			taken = taken || other.Name == s.Name
		}
		if !taken {
			break
		}
		s.Name = fmt.Sprintf("%s (%d)", name, n)
	}
	if t, ok := s.Target.(*client.CommandTarget); ok {
		recorded := *t
		record := recorder{log: h.log, server: s.Name}
		recorded.Stderr = func(line string) { record.note(kindProgram, false, "stderr", []byte(line), nil) }
		s.Target = &recorded
	}
	added := &server{Server: s, hub: h, state: stateIdle, kept: make(map[string]keptList), settings: defaultSettings(h.revision)}
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
		return out, fmt.Errorf("%d servers are the limit", maxServers)
	}
	s, err := h.add(r.Context(), in.URL)
	if err != nil {
		return out, err
	}
	out.Name = h.addOne(s).Name
	h.wake()
	return out, nil
}
