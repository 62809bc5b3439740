//go:build integration && unix

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// fixture is a gateway in front of server processes, with users who call it over HTTP.
type fixture struct {
	t       *testing.T
	ledger  ledger.Ledger
	began   time.Time
	journal string
	pids    string // see settings
	url     string
	host    *host.Host
	users   int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, began: time.Now(), journal: filepath.Join(t.TempDir(), "journal"), pids: t.TempDir()}
	f.ledger.Typed = faulttest.Typed
	// The gateway and its servers share two processors with other tests.
	f.ledger.Patience = 10 * time.Second
	return f
}

// command returns the target of a server process.
func (f *fixture) command(name string, change func(*settings)) host.ServerConfig {
	f.t.Helper()
	o := settings{Name: name, Journal: f.journal, Pids: f.pids}
	if change != nil {
		change(&o)
	}
	return host.ServerConfig{Name: name, Target: &client.CommandTarget{CommandOptions: commandOptions(f.t,
		serverVariable, o)}}
}

func commandOptions(t *testing.T, variable string, settings any) transport.CommandOptions {
	t.Helper()
	self, err := os.Executable()
	must.Do(t, err)
	text, err := json.Marshal(settings)
	must.Do(t, err)
	return transport.CommandOptions{Path: self, Env: []string{variable + "=" + string(text)}}
}

// serve starts the gateway in this process and waits until all servers are ready.
func (f *fixture) serve(servers []host.ServerConfig, d client.Dialer) {
	f.t.Helper()
	g := must.Get(startGateway(servers, d))(f.t)
	f.host, f.url = g.host, g.url
	f.t.Cleanup(g.stop)
	ctx, cancel := context.WithTimeout(f.t.Context(), faulttest.Patience)
	defer cancel()
	must.Do(f.t, g.host.WaitReady(ctx))
}

// endpoint is a gateway that serves over HTTP.
type endpoint struct {
	host *host.Host
	url  string
	stop func()
}

func startGateway(servers []host.ServerConfig, d client.Dialer) (*endpoint, error) {
	quiet := slog.New(slog.DiscardHandler)
	d.Logger = quiet
	h := &host.Host{Servers: servers, Logger: quiet, Dialer: d}
	s := &server.Server{Name: "gateway", Version: "1.0.0", Logger: quiet}
	g, err := gateway.New(h, s)
	if err != nil {
		return nil, err
	}
	if err := h.Start(); err != nil {
		return nil, err
	}
	g.Logger = quiet
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { g.Run(ctx) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return nil, errors.Join(err, h.Close())
	}
	web := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	serving.Go(func() { _ = web.Serve(listener) })
	return &endpoint{host: h, url: "http://" + listener.Addr().String(), stop: func() {
		stopped, end := context.WithTimeout(ctx, 5*time.Second)
		_ = s.Shutdown(stopped)
		end()
		cancel()
		_ = web.Close()
		_ = h.Close()
		serving.Wait()
	}}, nil
}

// gatewaySettings contains the settings of a gateway process: the settings of its servers.
type gatewaySettings struct{ Servers []settings }

// runGateway is a gateway that prints its URL and serves until the end of its input.
func runGateway(text string) error {
	var o gatewaySettings
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var servers []host.ServerConfig
	for _, s := range o.Servers {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		servers = append(servers, host.ServerConfig{Name: s.Name, Target: &client.CommandTarget{
			CommandOptions: transport.CommandOptions{Path: self, Env: []string{serverVariable + "=" + string(text)}},
		}})
	}
	recorded, err := record(o.Servers[0].Pids, strconv.Itoa(os.Getpid()), "gateway")
	if err != nil {
		return err
	}
	defer recorded.Close()
	g, err := startGateway(servers, client.Dialer{})
	if err != nil {
		return err
	}
	defer g.stop()
	if err := g.host.WaitReady(context.Background()); err != nil {
		return err
	}
	fmt.Println(g.url)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// processes returns the files of all started processes, with the names of their servers; see record.
func (f *fixture) processes() map[string]string {
	f.t.Helper()
	files := must.Get(os.ReadDir(f.pids))(f.t)
	all := make(map[string]string, len(files))
	for _, file := range files {
		name := must.Get(os.ReadFile(filepath.Join(f.pids, file.Name())))(f.t)
		all[file.Name()] = string(name)
	}
	return all
}

// runs reports whether the process of a file runs.
func (f *fixture) runs(file string) bool {
	f.t.Helper()
	opened := must.Get(os.Open(filepath.Join(f.pids, file)))(f.t)
	defer opened.Close()
	return syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// running returns the processes of a server that run.
func (f *fixture) running(server string) map[string]string {
	f.t.Helper()
	all := f.processes()
	maps.DeleteFunc(all, func(file, name string) bool { return name != server || !f.runs(file) })
	return all
}

// signal sends a signal to the processes of a server that run.
func (f *fixture) signal(server string, s syscall.Signal) {
	f.t.Helper()
	for file := range f.running(server) {
		pid := must.Get(strconv.Atoi(file))(f.t)
		_ = syscall.Kill(pid, s)
	}
}

// awaitEnd waits until processes have ended.
func (f *fixture) awaitEnd(processes map[string]string) {
	f.t.Helper()
	all := maps.Clone(processes)
	faulttest.Wait(f.t, "the processes have ended", func() error {
		for file, name := range all {
			if f.runs(file) {
				return fmt.Errorf("process %s of server %q runs", file, name)
			}
			delete(all, file)
		}
		return nil
	})
}

// finish checks that no process remains and that the ledger has no violation. The gateway must have ended.
func (f *fixture) finish() {
	f.t.Helper()
	f.awaitEnd(f.processes()) // no process outlives its gateway
	must.Do(f.t, f.ledger.ReadJournal(f.journal))
	faulttest.Report(f.t, &f.ledger, f.began, *totalsFile)
}

// callTime limits the time for one call. Only a call to a stopped server reaches it.
const callTime = 10 * time.Second

// user is a client of the gateway.
type user struct {
	*client.Client
	fixture *fixture
	name    string
}

// dial connects a new user, whose connection ends with the test.
func (f *fixture) dial(revision mcp.Revision) *user {
	f.t.Helper()
	f.users++
	u := &user{fixture: f, name: fmt.Sprintf("user-%d", f.users)}
	ctx, cancel := context.WithTimeout(f.t.Context(), faulttest.Patience)
	defer cancel()
	d := &client.Dialer{Name: u.name, Revision: revision, Logger: slog.New(slog.DiscardHandler),
		HTTPClient: &http.Client{Transport: &http.Transport{}}}
	var err error
	if u.Client, err = d.Dial(ctx, client.URL(f.url)); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = u.Close() })
	return u
}

// awaitTools waits until the gateway has registered the tools of servers. It registers them after the servers are
// ready.
func (u *user) awaitTools(servers ...string) {
	u.fixture.t.Helper()
	for _, server := range servers {
		u.await(server, "echo", "steps", "fault")
	}
}

// await waits until the gateway has registered the tools of a server. It registers them one after another.
func (u *user) await(server string, tools ...string) {
	u.fixture.t.Helper()
	faulttest.Wait(u.fixture.t, "the gateway has the tools of "+server, func() error {
		missing := make(map[string]bool)
		for _, name := range tools {
			missing[server+"__"+name] = true
		}
		for tool, err := range u.Tools(context.Background(), client.WithRefresh()) {
			if err != nil {
				return err
			}
			delete(missing, tool.Name)
		}
		if len(missing) > 0 {
			return fmt.Errorf("%v are missing", slices.Sorted(maps.Keys(missing)))
		}
		return u.call(server+"__echo", arguments{})
	})
}

// call calls a tool and records the outcome.
func (u *user) call(tool string, in arguments) error { return u.callWithin(callTime, tool, in) }

// callWithin is call with another time limit.
func (u *user) callWithin(limit time.Duration, tool string, in arguments) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	deadline, _ := ctx.Deadline()
	c := u.fixture.ledger.Issue(u.name, deadline)
	in.Nonce, in.User = c.Nonce(), u.name
	progress := client.WithProgress(func(_, _ float64, nonce string) { u.fixture.ledger.Received(u.name, nonce) })
	nonce, err := client.CallTool[string](ctx, u.Client, tool, in, progress)
	if err != nil {
		c.Failed(err)
		return err
	}
	c.Returned(nonce)
	return nil
}
