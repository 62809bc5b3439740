package redisstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store/redisstore"
)

// The replicas of a server share their state.
func Example() {
	ctx := context.Background()
	options, err := redisstore.ParseURL("redis://127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	store, err := redisstore.Open(ctx, options)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	s := &server.Server{Name: "weather", Version: "1.0.0", KV: store, Log: store}
	if err := s.ListenAndServe(ctx, ":8080"); err != nil {
		log.Print(err)
	}
}

func ExampleParseURL() {
	options, err := redisstore.ParseURL("redis://sentinel.example:26379?master=main&prefix=weather:")
	fmt.Println(options.Addrs, options.MasterName, options.Prefix, err)
	// Output: [sentinel.example:26379] main weather: <nil>
}
