// Command replica is one of several replicas of a server. They share sessions, event streams and tasks in Redis, so
// that any of them can serve any request, and another continues when one stops.
//
//	redis-server --port 6379 --appendonly yes --maxmemory-policy noeviction
//	openssl rand -base64 32 >store.keys
//	export REDIS_URL=redis://127.0.0.1:6379 KEY_FILE=store.keys
//	go run ./store/redisstore/examples/replica -http 127.0.0.1:8081
//	go run ./store/redisstore/examples/replica -http 127.0.0.1:8082
//	parley call --task http://127.0.0.1:8081/mcp bake kind=plum # prints the id of a task
//	parley task get http://127.0.0.1:8082/mcp ID
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/store/redisstore"
)

// readKeys reads keys from a file, one per line in base64. All replicas use the same file. Make a new key with
// openssl rand -base64 32. To rotate keys, add the new one as the last line and restart all replicas; then move it to
// the first line and restart them again. Remove the old key once the longest task is over, but not before a day has
// passed.
func readKeys(file string) (keys [][]byte, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, line := range bytes.Fields(data) {
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s: a key must be base64: %w", file, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// openStore connects to Redis.
func openStore(ctx context.Context, url string) (redisstore.Store, error) {
	options, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.Prefix = "bakery:" // replicas of another program on this Redis use another prefix
	return redisstore.Open(ctx, options)
}

type order struct {
	Kind    string `json:"kind" doc:"kind of cake" enum:"plum,apple"`
	Seconds int    `json:"seconds" doc:"time in the oven" minimum:"0" maximum:"60" default:"5"`
}

// newServer returns a replica of the server.
func newServer(shared store.Store, keys [][]byte) *server.Server {
	s := &server.Server{Name: "bakery", Version: "1.0.0", Store: shared, Keys: keys}
	// With Replay, another replica runs the task again if this one ends.
	server.AddTool(s, mcp.Tool{Name: "bake", Description: "Bake a cake"}, bake,
		server.AsTask(server.TaskOptions{Replay: true}))
	return s
}

// bake buys the ingredients once, even if another replica runs the task again.
func bake(ctx context.Context, in order) (string, error) {
	receipt, err := server.Once(ctx, "buy", func(_ context.Context, idempotencyKey string) (string, error) {
		return "receipt " + idempotencyKey, nil // from a shop that accepts each key once
	})
	if err != nil {
		return "", err // for example, server.ErrOnceUncertain
	}
	select {
	case <-time.After(time.Duration(in.Seconds) * time.Second):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return fmt.Sprintf("a %s cake, %s", in.Kind, receipt), nil
}

func run(ctx context.Context, address string) error {
	keys, err := readKeys(os.Getenv("KEY_FILE"))
	if err != nil {
		return err
	}
	shared, err := openStore(ctx, os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	defer shared.Close() // closed after the server has ended
	// ListenAndServe ends gracefully when ctx ends: it waits for the calls in flight. Other replicas continue its
	// sessions.
	return newServer(shared, keys).ListenAndServe(ctx, address)
}

func main() {
	address := flag.String("http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		log.Fatal(err)
	}
}
