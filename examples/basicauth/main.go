// Command basicauth is a server whose callers send a name and a password (HTTP Basic). The environment variable USERS
// contains the digest of each user's password, in hex. Serve it only behind TLS.
//
//	USERS="ada=$(printf 4c6f7665 | sha256sum | cut -c 1-64)" go run ./examples/basicauth -addr 127.0.0.1:8080
//	parley call http://127.0.0.1:8080/mcp whoami --header "Authorization: Basic $(printf ada:4c6f7665 | base64)"
package main

import (
	"context"
	"crypto/subtle"
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

// passwords contains the digests of the passwords, by user. The passwords are random; passwords that people choose need
// a slow hash, such as crypto/pbkdf2.
type passwords map[string]string

func parseUsers(text string) passwords {
	all := passwords{}
	for _, pair := range strings.Fields(text) {
		if user, digest, _ := strings.Cut(pair, "="); len(digest) == len(auth.HashKey("")) {
			all[user] = digest
		}
	}
	return all
}

// authenticate puts the user of each request into its context, and rejects requests without the password of a user.
func (p passwords) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(auth.HashKey(password)), []byte(p[user])) == 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="mcp", charset="UTF-8"`)
			http.Error(w, "send the name and the password of a user", http.StatusUnauthorized)
			return
		}
		who, err := principal.New("passwords", user, "")
		if err != nil {
			http.Error(w, "the name of the user cannot be used", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), &auth.Info{Principal: who})))
	})
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	s := &server.Server{Name: "basicauth", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "whoami", Description: "Name the caller"},
		func(ctx context.Context, _ struct{}) (string, error) { return server.PrincipalOf(ctx).Subject(), nil })
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: parseUsers(os.Getenv("USERS")).authenticate(s), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}
