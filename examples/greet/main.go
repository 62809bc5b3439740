// Command greet is a minimal client: it starts the hello server, calls its tool and prints
// the decoded result.
//
//	go run ./examples/greet
package main

import (
	"context"
	"log"

	"github.com/parley-mcp/parley/client"
)

func main() {
	c, err := client.Dial(context.Background(), client.Command("go", "run", "./examples/hello"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	greeting, err := client.CallTool[string](context.Background(), c, "greet", map[string]string{"name": "Ada"})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(greeting)
}
