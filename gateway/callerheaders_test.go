package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// keyedServer is a server that records the headers of all requests. Callers name themselves in the argument Owner of
// its tool.
type keyedServer struct {
	server.Server
	mu       sync.Mutex
	arrivals []arrival
}

type arrival struct {
	owner, session string // empty if the request names none
	header         http.Header
}

func newKeyedServer(t *testing.T, name string) (s *keyedServer, url string) {
	s = new(keyedServer)
	s.Name, s.Logger, s.Limits = name, quiet, server.Limits{CallsPerSecond: -1}
	server.AddTool(s, mcp.Tool{Name: "call"}, func(_ context.Context, in struct{ Owner string }) (string, error) {
		return in.Owner, nil
	})
	return s, wiretest.Serve(t, s)
}

// rejected is the prefix of the names of callers whose keys the servers reject.
const rejected = "eve"

func (s *keyedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	a := arrival{session: r.Header.Get(sessionHeader) + r.URL.Query().Get("sessionId"), header: r.Header.Clone()}
	if m := ownerOfCall.FindSubmatch(body); m != nil {
		a.owner = string(m[1])
	}
	s.mu.Lock()
	s.arrivals = append(s.arrivals, a)
	s.mu.Unlock()
	if strings.Contains(fmt.Sprint(r.Header), "key-"+rejected) {
		http.Error(w, "wrong key", http.StatusUnauthorized)
		return
	}
	s.Server.ServeHTTP(w, r)
}

var keyOfCaller = regexp.MustCompile(`key-[a-z]+-[0-9]-[a-z]+`)

// keyOf returns the key of a caller for a server. Callers with the number 0 have no key, and callers with the number 3
// share one.
func keyOf(owner, server string) string {
	switch user, number, _ := strings.Cut(owner, "-"); {
	case number == "0":
		return ""
	case number == "3":
		return "key-all-3-" + server
	default:
		return "key-" + user + "-" + number + "-" + server
	}
}

// check checks what has arrived at a server. header is the header in which the server receives keys.
func (s *keyedServer) check(t *testing.T, name, header string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, owners := make(map[string][]string), make(map[string][]string) // by session
	for _, a := range s.arrivals {
		found := keyOfCaller.FindAllString(fmt.Sprint(a.header), -1)
		for _, key := range found {
			must.CheckThat(t, strings.HasSuffix(key, "-"+name), "server %s receives %s", name, key)
		}
		must.CheckThat(t, a.header.Get("X-Other") == "" && a.header.Get("X-One") == "" && a.header.Get("X-Two") == "",
			"server %s receives headers that are not for it: %v", name, a.header)
		if a.owner != "" {
			want := ""
			if key := keyOf(a.owner, name); key != "" {
				want = "Bearer " + key
			}
			must.CheckEqual(t, a.header.Get(header), want, "server "+name, a.owner)
			owners[a.session] = append(owners[a.session], a.owner)
		}
		keys[a.session] = append(keys[a.session], strings.Join(found, " "))
	}
	for session, of := range owners {
		slices.Sort(of)
		of, with := slices.Compact(of), slices.Compact(slices.Sorted(slices.Values(keys[session])))
		must.CheckThat(t, session == "" || len(of) <= 1 && len(with) <= 1,
			"server %s: callers %q with the keys %q share a session", name, of, with)
	}
	must.CheckThat(t, len(owners) != 0, "server %s was not called", name)
}

// keyring sends the keys of a caller with each request. They can change within a session.
type keyring struct {
	next  *http.Transport // separate, because closing a test server closes idle connections of http.DefaultTransport
	mu    sync.Mutex
	owner string
}

func (k *keyring) set(owner string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.owner = owner
}

func (k *keyring) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	owner := k.owner
	k.mu.Unlock()
	r = r.Clone(r.Context())
	for _, name := range []string{"one", "two", "other"} {
		if key := keyOf(owner, name); key != "" {
			r.Header.Set("X-"+name, key)
		}
	}
	return k.next.RoundTrip(r)
}

// Two servers receive a key for each caller. The test looks for leaks first: it searches each request to a server
// for the keys of the other server and of other callers. Callers of each revision change their keys within a
// session.
func TestKeyOfACallerReachesItsServerOnlyAndIsNotShared(t *testing.T) {
	t.Parallel()
	for _, theirs := range mcp.Revisions() { // one after the other: each uses 25 clients at a time
		t.Run(string(theirs), func(t *testing.T) {
			one, first := newKeyedServer(t, "one")
			two, second := newKeyedServer(t, "two")
			var log, audit syncbuffer.Buffer
			logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			operator := func(url, name string) client.Target {
				return &client.HTTPTarget{URL: url, Header: http.Header{name: {"operator"}}}
			}
			h := &host.Host{
				Servers: []host.ServerConfig{
					{Name: "one", Target: operator(first, "Authorization"),
						CallerHeaders: map[string]string{"x-one": "authorization: Bearer ${value}"}},
					{Name: "two", Target: operator(second, "X-Api-Key"),
						CallerHeaders: map[string]string{"X-Two": "X-API-Key:Bearer ${value}"}},
				},
				Dialer: client.Dialer{Revision: theirs, Logger: logger}, Logger: logger,
				Audit: slog.NewJSONHandler(&audit, nil), AuditValues: true,
			}
			users, strangers := startKeyedGateway(t, h, logger)
			var calling sync.WaitGroup
			for _, mine := range mcp.Revisions() {
				for _, user := range []string{"ada", "bob", "guest", "stranger", rejected} {
					target := client.Target(client.URL(strangers))
					if user == "ada" || user == "bob" {
						target = as(user, users)
					}
					calling.Go(func() { callWithKeys(t, user, mine, target) })
				}
			}
			calling.Wait()
			one.check(t, "one", "Authorization")
			two.check(t, "two", "X-Api-Key")
			must.CheckEqual(t, keyOfCaller.FindString(log.String()), "", "in the log")
			must.CheckEqual(t, keyOfCaller.FindString(audit.String()), "", "in the audit log")
			must.CheckThat(t, strings.Contains(audit.String(), `"headers":["X-One"],"server":"one"`),
				"the audit log does not name the header: %.2000s", audit.String())
		})
	}
}

// startKeyedGateway starts a gateway with an endpoint for users and one for strangers.
func startKeyedGateway(t *testing.T, h *host.Host, logger *slog.Logger) (users, strangers string) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var gateways []*gateway.Gateway
	both := []*server.Server{{Name: "gateway", Auth: usersByToken()}, {Name: "gateway"}}
	for _, s := range both {
		s.Logger, s.Limits = logger, server.Limits{CallsPerSecond: -1}
		g := must.Get(gateway.New(h, s))(t)
		g.Logger = logger
		gateways = append(gateways, g)
	}
	must.Do(t, h.Start())
	for _, g := range gateways {
		running.Go(func() { g.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		h.Close()
	})
	waiting, stop := context.WithTimeout(t.Context(), patienceOfAudience)
	defer stop()
	for _, g := range gateways {
		must.Do(t, g.WaitReady(waiting))
	}
	return wiretest.Serve(t, both[0]), wiretest.Serve(t, both[1])
}

// callWithKeys calls both servers with different keys in one session.
func callWithKeys(t *testing.T, user string, r mcp.Revision, target client.Target) {
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfAudience)
	defer cancel()
	keys := &keyring{next: new(http.Transport), owner: user + "-0"}
	defer keys.next.CloseIdleConnections()
	d := client.Dialer{Revision: r, Logger: quiet, HTTPClient: &http.Client{Transport: keys}}
	c, err := d.Dial(ctx, target)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	numbers := []string{"1", "2", "3", "0", "1"}
	if r.Modern() && target.(*client.HTTPTarget).Header == nil { // such strangers cannot be told apart
		numbers = []string{"1", "2", "1"}
	}
	for _, number := range numbers {
		owner := user + "-" + number
		keys.set(owner)
		for _, name := range []string{"one", "two"} {
			result, err := c.CallTool(ctx, name+"__call", map[string]string{"Owner": owner})
			if strings.Contains(keyOf(owner, name), rejected) {
				said := fmt.Sprint(err)
				if err == nil && result.IsError {
					said = text(result.Content)
				}
				must.CheckThat(t, strings.Contains(said, "X-"+strings.ToUpper(name[:1])+name[1:]) &&
					!keyOfCaller.MatchString(said), "rejected key: %s", said)
				continue
			}
			if err != nil {
				t.Errorf("%s calls %s in %s: %v", owner, name, r, err)
				continue
			}
			must.CheckEqual(t, text(result.Content), owner)
		}
	}
}
