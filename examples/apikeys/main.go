// Command apikeys is a server over HTTP whose callers use API keys, without an authorization server. The environment
// variable KEYS names the file of their digests, which parley key writes. In this example's file, the key of ada is
// 4c6f7665.
//
//	KEYS=examples/apikeys/keys.json go run ./examples/apikeys -http 127.0.0.1:8080
//	parley call http://127.0.0.1:8080/mcp whoami --header 'Authorization: Bearer 4c6f7665'
package main

import (
	"context"
	"os"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func main() {
	s := &server.Server{
		Name: "apikeys", Version: "1.0.0",
		Auth: &auth.ProtectedResource{Verifier: &auth.Keys{File: os.Getenv("KEYS")}},
	}
	server.AddTool(s, mcp.Tool{Name: "whoami", Description: "Name the caller"},
		func(ctx context.Context, _ struct{}) (string, error) {
			return server.PrincipalOf(ctx).Subject(), nil
		})
	server.Main(s)
}
