package host_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

const asChild = "PARLEY_HOST_TEST_CHILD"

// The test binary is also a server to run as a child process.

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "1" {
		s := newServer("child")
		server.AddStatic(s, mcp.Resource{URI: "lib://a", Name: "a"}, "a")
		if err := s.Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type none struct{}

type identity struct {
	Name string `json:"name"`
	Pid  int    `json:"pid"`
}

// newServer returns a server with the tools "who", which returns its identity, and
// "die", which ends its process.
func newServer(name string) *server.Server {
	s := &server.Server{Name: name, Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "who"}, func(context.Context, none) (identity, error) {
		return identity{name, os.Getpid()}, nil
	})
	server.AddTool(s, mcp.Tool{Name: "die"}, func(context.Context, none) (string, error) {
		os.Exit(3)
		return "", nil
	})
	return s
}

// inMemory returns the config of a server in this process. It can be dialled only once.
func inMemory(t *testing.T, name string) host.ServerConfig { return configOf(t, newServer(name), name) }

// configOf returns the config of a server in this process.
func configOf(t *testing.T, s *server.Server, name string) host.ServerConfig {
	near, far := transport.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeConn(context.Background(), far)
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	return host.ServerConfig{Name: name, Target: client.Conn(near)}
}

// inProcess returns the config of a server in a child process.
func inProcess(name string) host.ServerConfig {
	p := &client.CommandTarget{}
	p.Path, p.Env = os.Args[0], []string{asChild + "=1"}
	return host.ServerConfig{Name: name, Target: p}
}
