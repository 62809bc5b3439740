//go:build integration && unix

package faults

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/freeaddr"
	"github.com/parley-mcp/parley/mcp"
)

// Server processes are killed and start again while users call them. Calls that begin while a process is away wait for it:
// only those that are in flight when it is killed fail.
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
					if err := os.Remove(gate); err != nil {
						t.Fatal(err)
					}
					l.fail(name)
					f.signal(name, syscall.SIGKILL)
					faulttest.Wait(t, "the host knows that "+name+" has ended", func() error {
						if f.status(name).Version == before.Version {
							return errors.New("it does not")
						}
						return nil
					})
					l.recovered(name)
					l.awaitBegun(name, 1) // later ones wait for the same start, and each for at most 10 seconds
					open(t, gate)
					tester.awaitTools(name)
				}
				for _, e := range endpoints {
					l.Proceed(20)
					l.fail(e.name)
					e.kill()
					// A call on a connection of the process that has ended would be in flight, as far as the host can know.
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
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
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

// webServer starts a server process, which ends with the test.
func (f *fixture) webServer(name string) *webServer {
	f.t.Helper()
	address, err := freeaddr.New()
	if err != nil {
		f.t.Fatal(err)
	}
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
	if err := e.process.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill kills the process and waits for its end.
func (e *webServer) kill() {
	if e.process.ProcessState == nil {
		_ = e.process.Process.Kill()
		_ = e.process.Wait()
	}
}
