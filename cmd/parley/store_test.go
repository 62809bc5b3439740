//go:build integration

package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-mcp/parley/internal/freeaddr"
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
