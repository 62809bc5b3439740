package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store/redisstore"
)

// A replica of a server. The program in the directory examples/replica is complete: it has keys that can be rotated, and
// a task that another replica continues.
func Example() {
	ctx := context.Background()
	options, err := redisstore.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	options.Prefix = "weather:" // the replicas of another program on this Redis have another prefix
	shared, err := redisstore.Open(ctx, options)
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close() // after the server has ended
	s := &server.Server{Name: "weather", Store: shared, Keys: [][]byte{[]byte(os.Getenv("KEY"))}}
	fmt.Println(s.ListenAndServe(ctx, "127.0.0.1:8080"))
}
