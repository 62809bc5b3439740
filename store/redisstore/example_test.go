package redisstore_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store/redisstore"
)

// readKeys returns the keys in a file, one a line in base64. All replicas have the same file. A new key is made with
// openssl rand -base64 32. To rotate keys, add the new one as the last line and restart all replicas; then move it to
// the first line and restart them again. Remove the old key after the longest life of a task, and at least a day.
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

// serve runs one replica until ctx ends.
func serve(ctx context.Context, url, keyFile string) error {
	keys, err := readKeys(keyFile)
	if err != nil {
		return err
	}
	options, err := redisstore.ParseURL(url)
	if err != nil {
		return err
	}
	options.Prefix = "weather:" // the replicas of another program on this Redis have another prefix
	store, err := redisstore.Open(ctx, options)
	if err != nil {
		return err
	}
	defer store.Close() // after the server has ended

	s := &server.Server{Name: "weather", Version: "1.0.0", Store: store, Keys: keys}
	server.AddTool(s, mcp.Tool{Name: "forecast", Description: "Forecast the weather"}, forecast,
		server.AsTask(server.TaskOptions{Replay: true})) // another replica runs it again if this one ends
	// Serve stops gracefully when ctx ends: it waits for the calls in flight. Other replicas continue its sessions.
	return s.ListenAndServe(ctx, "127.0.0.1:8080")
}

func forecast(context.Context, struct{}) (string, error) { return "It stays cold.", nil }

// The replicas of a server share sessions, streams and tasks, so that each can serve any request. What they store is
// encrypted with their keys.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Getenv("REDIS_URL"), os.Getenv("KEY_FILE")); err != nil {
		log.Fatal(err)
	}
}
