// Command ownkey is a server whose callers send the API key that the company's other services accept, in the
// company's own header. The environment variable KEYS contains the digest of each user's key, in hex.
//
//	KEYS="ada=$(printf 4c6f7665 | sha256sum | cut -c 1-64)" go run ./examples/ownkey -addr 127.0.0.1:8080
//	parley call http://127.0.0.1:8080/mcp whoami --header 'X-Company-Key: 4c6f7665'
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// keys contains the users, by the digests of their keys. A client cannot choose a key by its digest, so the time
// of a look-up says nothing about other keys.
type keys map[string]*auth.Info

func parseKeys(text string) (keys, error) {
	all := keys{}
	for _, pair := range strings.Fields(text) {
		user, digest, _ := strings.Cut(pair, "=")
		who, err := principal.New("company keys", user, "")
		if err != nil {
			return nil, err
		}
		all[digest] = &auth.Info{Principal: who}
	}
	return all, nil
}

// authenticate puts the user with the key of each request into its context, and rejects requests without a valid key.
func (k keys) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := k[auth.HashKey(r.Header.Get("X-Company-Key"))]
		if info == nil {
			http.Error(w, "send your key in the header X-Company-Key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), info)))
	})
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	users, err := parseKeys(os.Getenv("KEYS"))
	if err != nil {
		log.Fatal(err)
	}
	s := &server.Server{Name: "ownkey", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "whoami", Description: "Name the caller"},
		func(ctx context.Context, _ struct{}) (string, error) { return server.PrincipalOf(ctx).Subject(), nil })
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: users.authenticate(s), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}
