//go:build integration && unix

package faults

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// Each server fails in its own way while users call all of them. The calls to the others succeed, a server that has
// failed serves again, and no process remains.
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
			err := tester.call(name+"__fault", arguments{Fault: fault.name})
			if fault.survives && err != nil {
				t.Errorf("a server that %s: %v", fault.name, err)
			}
			l.Proceed(40)
			switch {
			case fault.name == "is stopped":
				f.signal(name, syscall.SIGCONT)
			case !fault.survives:
				// A server that has closed its input serves until the pending read has returned.
				f.awaitEnd(before)
			}
			tester.awaitTools(name) // it serves again
			l.recovered(name)
		}
	})
	// Signals from outside, at any time of a call.
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

// Servers that do not start, or fail again and again, do not delay the others, and each call to them ends with an error.
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
	g, err := startGateway(servers, client.Dialer{})
	if err != nil {
		t.Fatal(err)
	}
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
		_, err := g.host.CallTool(ctx, name, "echo", nil)
		cancel()
		if err == nil {
			t.Errorf("%s: a call has a result", name)
		}
	}
	l.stop()
	_ = g.host.Close()
	f.finish()
}

// A gateway that is killed leaves no process: neither servers, nor their children, nor those that ignore SIGTERM and the
// end of their input.
func TestNoProcessOutlivesAGatewayThatIsKilled(t *testing.T) {
	f := newFixture(t)
	var o gatewaySettings
	for i := range 5 {
		o.Servers = append(o.Servers, settings{Name: fmt.Sprintf("server-%d", i+1), Journal: f.journal, Pids: f.pids, Stubborn: i%2 == 0})
	}
	repeat(func() {
		options := commandOptions(t, gatewayVariable, o)
		command := exec.Command(options.Path)
		command.Env = append(os.Environ(), options.Env...)
		command.Stderr = os.Stderr
		stdin, err := command.StdinPipe() // the gateway ends with this process
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		stdout, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			_ = command.Process.Kill()
			t.Fatalf("the gateway does not start: %v, %v", err, command.Wait())
		}
		f.url = strings.TrimSpace(line)
		u := f.dial(mcp.V20260728)
		for _, s := range o.Servers {
			u.awaitTools(s.Name)
			if err := u.call(s.Name+"__fault", arguments{Fault: "leaves a child with its pipes"}); err != nil {
				t.Error(err)
			}
		}
		called := make(chan error, 1)
		go func() { called <- u.call(o.Servers[0].Name+"__steps", arguments{}) }()
		f.ledger.Fault()
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait()
		<-called // it has one outcome, with or without an error
	})
	f.finish()
}
