package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store/redisstore"
)

// This program is a replica of a server. The program in the directory examples/replica is complete: its keys can be
// rotated, and another replica can continue its tasks.
func Example() {
	ctx := context.Background()
	options, err := redisstore.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	options.Prefix = "weather:" // replicas of another program on this Redis use another prefix
	shared, err := redisstore.Open(ctx, options)
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close() // closed after the server has ended
	s := &server.Server{Name: "weather", Store: shared, Keys: [][]byte{[]byte(os.Getenv("KEY"))}}
	fmt.Println(s.ListenAndServe(ctx, "127.0.0.1:8080"))
}
