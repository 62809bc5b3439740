//go:build integration

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/freeaddr"
	"github.com/parley-mcp/parley/internal/must"
)

// patience is how long a test waits before it fails.
const patience = time.Minute

// forEachProgram runs a test with each server.
func forEachProgram(t *testing.T, test func(t *testing.T, program string)) {
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

// server is a Redis server that the test has started.
type server struct {
	t         testing.TB
	program   string
	addr      string
	dir       string
	arguments []string
	bus       string            // port for connections between servers of a cluster
	process   *freeaddr.Process // nil if it was killed
}

// start starts a server on a free port of the loopback interface, with a temporary directory.
// It ends with the test.
func start(t testing.TB, program string, arguments ...string) *server {
	t.Helper()
	return startAt(t, "", program, arguments...)
}

// startAt starts a server, as start does, at an address; empty means a free one.
func startAt(t testing.TB, addr, program string, arguments ...string) *server {
	t.Helper()
	s := &server{t: t, program: program, addr: addr, dir: t.TempDir(), arguments: arguments}
	s.start()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			output, _ := os.ReadFile(s.log())
			t.Logf("output of %s at %s:\n%s", program, s.addr, output)
		}
	})
	return s
}

func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := freeaddr.New()
	must.Do(t, err)
	return addr
}

func freePort(t testing.TB) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(freeAddr(t))
	return port
}

func (s *server) log() string { return filepath.Join(s.dir, "output") }

func (s *server) port() string {
	_, port, _ := net.SplitHostPort(s.addr)
	return port
}

// start starts the process and waits until it accepts connections.
func (s *server) start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if s.addr != "" {
		s.process, err = freeaddr.StartAt(ctx, s.addr, s.commandAt(s.addr))
	} else if s.process, err = freeaddr.Start(ctx, s.commandAt); err == nil {
		s.addr = s.process.Addr
	}
	must.Do(s.t, err)
}

// commandAt returns the command that starts the server at addr.
func (s *server) commandAt(addr string) *exec.Cmd {
	s.t.Helper()
	program, err := filepath.Abs("../../.tools/servers/" + s.program)
	if err == nil {
		_, err = os.Stat(program)
	}
	must.Do(s.t, err, "run make tools")
	output, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must.Do(s.t, err)
	s.t.Cleanup(func() { _ = output.Close() })
	_, port, _ := net.SplitHostPort(addr)
	arguments := append(slices.Clone(s.arguments), "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--daemonize", "no", "--loglevel", "notice")
	switch {
	case slices.Contains(arguments, "--sentinel"): // Sentinel takes other options
		arguments = s.arguments
	case slices.Contains(arguments, "--cluster-enabled"):
		// The default is 10,000 above the other port and may be in use.
		s.bus = freePort(s.t)
		arguments = append(arguments, "--cluster-port", s.bus)
	}
	command := exec.Command(program, arguments...)
	command.Dir, command.Stdout, command.Stderr = s.dir, output, output
	endWithTest(command)
	return command
}

// kill ends the process without warning.
func (s *server) kill() {
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

// client returns a client for commands of the test.
func (s *server) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// command executes a command on the server.
func (s *server) command(args ...any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2})
	defer c.Close()
	result, err := c.Do(ctx, args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("%v at %s: %v", args, s.addr, err)
	}
	return result
}

// keys returns the keys that start with prefix.
func (s *server) keys(prefix string) []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2})
	defer c.Close()
	var keys []string
	found := c.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	must.Do(s.t, found.Err())
	return keys
}

// everyKeyExpires checks that all keys have a time to live.
func (s *server) everyKeyExpires() {
	s.t.Helper()
	keys := s.keys("")
	must.CheckThat(s.t, len(keys) != 0, "there are no keys to check")
	for _, key := range keys {
		must.CheckThat(s.t, s.command("pttl", key) != int64(-1), "key %.100q has no time to live", key)
	}
}

// limitMemory empties the server and sets maxmemory to what the server then uses plus some
// bytes.
func (s *server) limitMemory(more int64) {
	s.t.Helper()
	s.command("config", "set", "maxmemory", 0)
	s.command("flushall", "sync")
	used, err := strconv.ParseInt(field(s.command("info", "memory").(string), "used_memory"), 10, 64)
	must.Do(s.t, err)
	s.command("config", "set", "maxmemory", used+more)
}

// wait calls f until it succeeds.
func wait(t testing.TB, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited %v until %s: %v", patience, what, err)
		case <-poll.C:
		}
	}
}

// connect opens a Store and closes it when the test ends.
func connect(t testing.TB, o Options) *redisStore {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	opened, err := Open(ctx, o)
	must.Do(t, err)
	s := opened.(*redisStore)
	t.Cleanup(func() {
		must.Check(t, s.Close())
	})
	return s
}

// at returns options for one server.
func at(addr string) Options { return Options{Addrs: []string{addr}} }

// slotsOf returns the slots that a server of a cluster owns at first.
func slotsOf(i int) (first, last int) { return i * 16384 / 3, (i+1)*16384/3 - 1 }

// startNode starts a server of a cluster.
func startNode(t *testing.T, program string) *server {
	t.Helper()
	return start(t, program, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
}

// cluster starts three servers that form a cluster.
func cluster(t *testing.T, program string) []*server {
	t.Helper()
	nodes := make([]*server, 3)
	for i := range nodes {
		nodes[i] = startNode(t, program)
		first, last := slotsOf(i)
		nodes[i].command("cluster", "addslotsrange", first, last)
		nodes[i].command("cluster", "set-config-epoch", i+1)
		if i > 0 {
			nodes[0].command("cluster", "meet", "127.0.0.1", nodes[i].port(), nodes[i].bus)
		}
	}
	for _, node := range nodes {
		client := node.client()
		wait(t, "the cluster is ready", func() error {
			info, err := client.ClusterInfo(context.Background()).Result()
			if err == nil && (field(info, "cluster_state") != "ok" || field(info, "cluster_known_nodes") != "3") {
				err = fmt.Errorf("state of the cluster: %s", info)
			}
			return err
		})
	}
	return nodes
}

func inCluster(nodes []*server) Options {
	o := Options{Cluster: true}
	for _, node := range nodes {
		o.Addrs = append(o.Addrs, node.addr)
	}
	return o
}
