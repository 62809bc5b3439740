//go:build integration

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-mcp/parley/internal/freeaddr"
	"github.com/parley-mcp/parley/internal/must"
)

// The scripts in testdata/store start replicas with one redis-server, which scripts/tools installs.
func TestStoreScripts(t *testing.T) {
	program, err := filepath.Abs("../../.tools/servers/redis-server")
	if err != nil {
		t.Fatal(err)
	}
	params := scripts("testdata/store")
	setUp := params.Setup
	params.Setup = func(env *testscript.Env) error {
		if err := setUp(env); err != nil {
			return err
		}
		addr, err := startRedis(env, program)
		env.Setenv("REDIS", addr)
		return err
	}
	params.Cmds["redis"] = commandRedis
	testscript.Run(t, params)
}

// The command lines of the containers run: Redis with its password, and two replicas of parley that are ready.
func TestContainersOfFilesRun(t *testing.T) {
	containers, dir := containersOf(t, "deploy/compose.yaml"), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "mcp.json"),
		[]byte(`{"mcpServers": {"demo": {"command": "parley", "args": ["serve", "--stdio"]}}}`), 0o600))
	redis := startContainerOfRedis(t, containers, dir)
	for range 2 {
		startContainer(t, containers, dir, redis)
	}
}

// startContainerOfRedis starts the command of the container of Redis, and returns its address.
func startContainerOfRedis(t *testing.T, containers map[string][]string, dir string) (addr string) {
	t.Helper()
	servers := must.Get(filepath.Abs("../../.tools/servers"))(t)
	t.Setenv("PATH", servers+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("REDIS_PASSWORD", "secret")
	redis := must.Get(freeaddr.Start(t.Context(), func(addr string) *exec.Cmd {
		host, port, _ := net.SplitHostPort(addr)
		words := slices.Clone(containers["redis:7"])
		words[len(words)-1] += " --bind " + host + " --port " + port
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir
		return cmd
	}))(t)
	t.Cleanup(redis.Kill)
	return redis.Addr
}

// startContainer starts the command of a container of parley, whose files are in dir, and waits until it is ready. Pairs
// of old and new texts change further arguments. It returns the URLs of the endpoint and of the pages for the operator.
func startContainer(t *testing.T, containers map[string][]string, dir, redis string, pairs ...string) (url, admin string) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(dir, "store.keys"), []byte(strings.Repeat("A", 43)+"=\n"), 0o600))
	args, addr := slices.Clone(containers[parleyImage]), must.Get(freeaddr.New())(t)
	for i, arg := range args {
		switch flag, value, _ := strings.Cut(arg, "="); flag {
		case "--config", "--key-file", "--policy", "--lock":
			args[i] = flag + "=" + filepath.Join(dir, filepath.Base(value))
		case "--addr":
			args[i] = flag + "=" + addr
		case "--admin":
			args[i] = flag + "=127.0.0.1:0"
		case "--store":
			before, _, _ := strings.Cut(value, "@")
			args[i] = flag + "=" + before + "@" + redis
		case "--drain-delay":
			args[i] = flag + "=0s"
		}
		args[i] = strings.NewReplacer(pairs...).Replace(args[i])
	}
	_, admin, _ = strings.Cut(startParley(t, `health and metrics at http://[^"]+`, args...), " at ")
	waitUntilReady(t, admin+"/readyz")
	return "http://" + addr + "/mcp", admin
}

// waitUntilReady waits until a page has the status 200, and says that the store is reachable.
func waitUntilReady(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			t.Fatal(err)
		case resp.StatusCode == http.StatusOK && strings.Contains(string(body), `"store":"reachable"`):
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("%s: %s", url, body)
		}
	}
}

// startRedis starts a server on a free port of the loopback interface. It ends with the script.
func startRedis(env *testscript.Env, program string) (addr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	server, err := freeaddr.Start(ctx, func(addr string) *exec.Cmd {
		_, port, _ := net.SplitHostPort(addr)
		return exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", env.WorkDir, "--save", "")
	})
	if err != nil {
		return "", fmt.Errorf("%w: run make tools", err)
	}
	env.Defer(server.Kill)
	return server.Addr, nil
}

// commandRedis implements the command redis WORD…, which sends a command to the Redis server.
func commandRedis(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: redis WORD…")
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: ts.Getenv("REDIS"), Protocol: 2})
	defer client.Close()
	words := make([]any, len(args))
	for i, word := range args {
		words[i] = word
	}
	ts.Check(client.Do(ctx, words...).Err())
}
