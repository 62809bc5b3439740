//go:build integration && unix

package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/browser"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/freeaddr"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Each server fails in its own way while users call all of them. Calls to the other servers succeed, a failed
// server serves again, and no process remains.
func TestFaultsOfAServerDoNotAffectOthers(t *testing.T) {
	f := newFixture(t)
	var servers []host.ServerConfig
	var names []string
	for i := range serverFaults {
		names = append(names, fmt.Sprintf("server-%d", i+1))
	}
	for i := range 6 {
		names = append(names, fmt.Sprintf("healthy-%d", i+1))
	}
	for _, name := range names {
		servers = append(servers, f.command(name, nil))
	}
	f.serve(servers, client.Dialer{})
	tester := f.dial(mcp.V20251125)
	tester.awaitTools(names...)
	l := f.startLoad(40, names)
	repeat(func() {
		for i, fault := range serverFaults {
			name := names[i]
			l.Proceed(40)
			l.fail(name)
			before := f.running(name)
			limit := callTime
			if fault.survives {
				limit = faulttest.Patience // the call succeeds, but a busy machine takes long to read 100 MB
			}
			err := tester.callWithin(limit, name+"__fault", arguments{Fault: fault.name})
			must.CheckThat(t, !fault.survives || err == nil, "a server that %s: %v", fault.name, err)
			l.Proceed(40)
			switch {
			case fault.name == "is stopped":
				f.signal(name, syscall.SIGCONT)
			case !fault.survives:
				// A server that has closed its input continues until the pending read returns.
				f.awaitEnd(before)
			}
			tester.awaitTools(name) // it serves again
			l.recovered(name)
		}
	})
	// Signals from outside, at any moment of a call.
	for _, name := range names[len(serverFaults):] {
		l.fail(name)
		f.signal(name, syscall.SIGKILL)
		l.Proceed(20)
		tester.awaitTools(name)
		l.recovered(name)
	}
	l.Proceed(40)
	l.stop()
	_ = f.host.Close()
	f.finish()
}

// Servers that do not start, or fail again and again, do not delay the others, and each call to them ends with an
// error.
func TestServersThatDoNotStartDoNotAffectOthers(t *testing.T) {
	f := newFixture(t)
	var servers []host.ServerConfig
	var names []string
	for i := range 17 {
		names = append(names, fmt.Sprintf("healthy-%d", i+1))
	}
	for _, name := range names {
		servers = append(servers, f.command(name, nil))
	}
	shell := func(name, script string) {
		servers = append(servers, host.ServerConfig{Name: name, Target: client.Command("/bin/sh", "-c", script)})
	}
	shell("exits", "exit 1")
	shell("silent", "exec sleep 1000")
	shell("talks", "while echo hello; do sleep 1; done")
	g := must.Get(startGateway(servers, client.Dialer{}))(t)
	f.host, f.url = g.host, g.url
	t.Cleanup(g.stop)
	for range 3 {
		f.ledger.Fault()
	}
	f.dial(mcp.V20260728).awaitTools(names...)
	l := f.startLoad(20, names)
	l.Proceed(400)
	for _, name := range []string{"exits", "silent", "talks"} {
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		_, err := g.host.Client(name).CallTool(ctx, "echo", nil)
		cancel()
		must.CheckThat(t, err != nil, "%s: a call has a result", name)
	}
	l.stop()
	_ = g.host.Close()
	f.finish()
}

// A gateway that is killed leaves no process: neither servers nor their children, even if they ignore SIGTERM and
// the end of their input.
func TestNoProcessOutlivesAGatewayThatIsKilled(t *testing.T) {
	f := newFixture(t)
	var o gatewaySettings
	for i := range 5 {
		o.Servers = append(o.Servers, settings{Name: fmt.Sprintf("server-%d", i+1), Journal: f.journal, Pids: f.pids,
			Stubborn: i%2 == 0})
	}
	repeat(func() {
		options := commandOptions(t, gatewayVariable, o)
		command := exec.Command(options.Path)
		command.Env = append(os.Environ(), options.Env...)
		command.Stderr = os.Stderr
		stdin, err := command.StdinPipe() // the gateway ends with this process
		must.Do(t, err)
		defer stdin.Close()
		stdout, err := command.StdoutPipe()
		must.Do(t, err)
		must.Do(t, command.Start())
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			_ = command.Process.Kill()
			t.Fatalf("the gateway does not start: %v, %v", err, command.Wait())
		}
		f.url = strings.TrimSpace(line)
		u := f.dial(mcp.V20260728)
		for _, s := range o.Servers {
			u.awaitTools(s.Name)
			must.Check(t, u.call(s.Name+"__fault", arguments{Fault: "leaves a child with its pipes"}))
		}
		called := make(chan error, 1)
		go func() { called <- u.call(o.Servers[0].Name+"__steps", arguments{}) }()
		f.ledger.Fault()
		must.Do(t, command.Process.Kill())
		_ = command.Wait()
		<-called // the call has one outcome, with or without an error
	})
	f.finish()
}

// All sessions of a server expire again and again while users call it, and the access token for it expires. No call
// fails, and one new token is requested for each expired one.
func TestCallsSurviveTheExpiryOfSessionsAndTokens(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for _, sharing := range []host.Sharing{host.SharingSession, host.SharingEveryone} {
			t.Run(fmt.Sprint(r, " ", sharing), func(t *testing.T) {
				f := newFixture(t)
				u := f.expiring("expiring")
				f.serve([]host.ServerConfig{{Name: u.name, Target: client.URL(u.url), Sharing: sharing}},
					client.Dialer{Revision: r, Auth: u.login(t)})
				f.dial(mcp.V20251125).await(u.name, "echo", "steps")
				l := f.startLoad(40, []string{u.name})
				tokens := 1
				var renewed time.Time
				repeat(func() {
					for range 5 {
						l.Proceed(60)
						f.ledger.Fault()
						u.sessions.expire()
					}
					l.Proceed(60)
					// A token that is rejected soon after it was issued would not be renewed.
					if time.Since(renewed) > time.Minute {
						f.ledger.Fault()
						u.tokens.expire()
						renewed = time.Now()
						tokens++
					}
				})
				l.Proceed(60)
				l.stop()
				_ = f.host.Close()
				n := u.tokens.number()
				must.CheckThat(t, n == tokens, "%d access tokens were used, want %d", n, tokens)
				n = u.sessions.number()
				must.CheckThat(t, n != 0 || r.Modern(), "there were no sessions")
				f.finish()
			})
		}
	}
}

// expiring is a server over HTTP that requires a login. The test lets its sessions and access tokens expire.
type expiring struct {
	name, url        string
	sessions, tokens seen
	logins           sync.WaitGroup
}

func (f *fixture) expiring(name string) *expiring {
	t := f.t
	t.Helper()
	issuer := must.Get(devissuer.Start(devissuer.Config{Scopes: []string{"mcp"}}))(t)
	t.Cleanup(func() { _ = issuer.Close() })
	open(t, f.journal) // the journal remains empty, because the server runs in this process
	u := &expiring{name: name}
	s := &server.Server{Name: name, Version: "1.0.0", Logger: slog.New(slog.DiscardHandler)}
	// For this server, all users are one principal.
	s.Limits.CallsPerSecond, s.Limits.Sessions, s.Limits.SessionsPerPrincipal = -1, 1<<20, 1<<20
	tool := func(name string, handle func(context.Context, arguments) (string, error)) {
		server.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, in arguments) (string, error) {
			f.ledger.Started(in.User, in.Nonce)
			return handle(ctx, in)
		})
	}
	tool("echo", func(_ context.Context, in arguments) (string, error) { return in.Nonce, nil })
	tool("steps", steps)
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("Mcp-Session-Id"); id != "" && !u.sessions.use(id) {
			http.Error(w, "the session has expired", http.StatusNotFound)
			return
		}
		s.ServeHTTP(w, r)
	}))
	u.url = "http://" + h.Listener.Addr().String() + "/mcp"
	s.Auth = jwt.Protect(&auth.ProtectedResource{URI: u.url, Issuers: []string{issuer.URL()}, Scopes: []string{"mcp"}})
	verifier := s.Auth.Verifier
	s.Auth.Verifier = auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
		info, err := verifier.Verify(ctx, token)
		if err == nil && !u.tokens.use(token) {
			return nil, errors.New("the token has expired")
		}
		return info, err
	})
	h.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		h.Close()
		u.logins.Wait()
	})
	return u
}

// login returns the client of a user who has logged in before. It refreshes the access token.
func (u *expiring) login(t *testing.T) *oauth.Client {
	t.Helper()
	user := new(logintest.Browser)
	first := &oauth.Client{
		Logger: slog.New(slog.DiscardHandler), Store: new(tokenstore.Memory),
		Interaction: &browser.Loopback{Open: func(ctx context.Context, page string) error {
			u.logins.Go(func() { _, _ = user.LogIn(ctx, page) })
			return nil
		}},
	}
	must.Do(t, first.Login(t.Context(), u.url))
	return &oauth.Client{Logger: first.Logger, Store: first.Store}
}

// seen contains the sessions or tokens that a server has received.
type seen struct {
	mu      sync.Mutex
	expired map[string]bool // by session or token
}

// use records the use of a session or token, and reports whether it is still valid.
func (s *seen) use(one string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired == nil {
		s.expired = make(map[string]bool)
	}
	expired := s.expired[one]
	s.expired[one] = expired
	return !expired
}

// expire makes everything expire that has been used.
func (s *seen) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.expired {
		s.expired[one] = true
	}
}

func (s *seen) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.expired)
}

// Server processes are killed and start again while users call them. Calls that begin while a process is away wait for
// it: only calls in flight when it is killed fail.
func TestCallsWaitForServersThatRestart(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		t.Run(string(r), func(t *testing.T) {
			f := newFixture(t)
			gate := filepath.Join(t.TempDir(), "gate")
			open(t, gate)
			var servers []host.ServerConfig
			var programs, names []string
			for i := range 4 {
				name := fmt.Sprintf("program-%d", i+1)
				programs, names = append(programs, name), append(names, name)
				servers = append(servers, f.command(name, func(s *settings) { s.Gate = gate }))
			}
			var endpoints []*webServer
			for i := range 4 {
				e := f.webServer(fmt.Sprintf("endpoint-%d", i+1))
				endpoints, names = append(endpoints, e), append(names, e.name)
				servers = append(servers, host.ServerConfig{Name: e.name, Target: client.URL("http://" + e.address)})
			}
			connections := &http.Transport{}
			f.serve(servers, client.Dialer{Revision: r, HTTPClient: &http.Client{Transport: connections}})
			tester := f.dial(mcp.V20251125)
			tester.awaitTools(names...)
			l := f.startLoad(20, names)
			repeat(func() {
				for _, name := range programs {
					l.Proceed(20)
					before := f.status(name)
					must.Do(t, os.Remove(gate))
					l.fail(name)
					f.signal(name, syscall.SIGKILL)
					faulttest.Wait(t, "the host knows that "+name+" has ended", func() error {
						if reflect.DeepEqual(f.status(name), before) {
							return errors.New("it does not")
						}
						return nil
					})
					l.recovered(name)
					l.awaitBegun(name, 1) // later calls wait for the same start, each at most 10 seconds
					open(t, gate)
					tester.awaitTools(name)
				}
				for _, e := range endpoints {
					l.Proceed(20)
					l.fail(e.name)
					e.kill()
					// A call on a connection to the ended process would look like a call in flight to the host.
					connections.CloseIdleConnections()
					l.recovered(e.name)
					l.awaitBegun(e.name, 1)
					e.start()
					tester.awaitTools(e.name)
				}
			})
			l.Proceed(20)
			l.stop()
			_ = f.host.Close()
			for _, e := range endpoints {
				e.kill()
			}
			f.finish()
		})
	}
}

// open creates an empty file.
func open(t *testing.T, file string) {
	t.Helper()
	must.Do(t, os.WriteFile(file, nil, 0o600))
}

// status returns the status of a server at the host.
func (f *fixture) status(name string) host.ServerStatus {
	all := f.host.Status()
	return all[slices.IndexFunc(all, func(s host.ServerStatus) bool { return s.Name == name })]
}

// webServer is a server process over HTTP.
type webServer struct {
	fixture *fixture
	name    string
	address string
	process *exec.Cmd
}

// webServer starts a server process that ends with the test.
func (f *fixture) webServer(name string) *webServer {
	f.t.Helper()
	address := must.Get(freeaddr.New())(f.t)
	e := &webServer{fixture: f, name: name, address: address}
	e.start()
	f.t.Cleanup(e.kill)
	faulttest.Wait(f.t, name+" accepts connections", func() error {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	})
	return e
}

func (e *webServer) start() {
	t := e.fixture.t
	t.Helper()
	options := commandOptions(t, serverVariable, settings{
		Name: e.name, Journal: e.fixture.journal, Pids: e.fixture.pids, Address: e.address,
	})
	e.process = exec.Command(options.Path)
	e.process.Env = append(os.Environ(), options.Env...)
	e.process.Stderr = os.Stderr
	must.Do(t, e.process.Start())
}

// kill kills the process and waits for its end.
func (e *webServer) kill() {
	if e.process.ProcessState == nil {
		_ = e.process.Process.Kill()
		_ = e.process.Wait()
	}
}
