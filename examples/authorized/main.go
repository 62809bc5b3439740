// Command authorized is a server over HTTP that requires access tokens. The tool add requires
// another scope, which the client requests when it is needed.
//
//	go run ./examples/authorized -addr 127.0.0.1:8080
//	go run ./examples/login http://127.0.0.1:8080/mcp
//
// The tokens come from a development authorization server, which logs in any user and listens on
// this machine only. In production, use -issuer to name another authorization server, and -introspect
// if its tokens are not JSON Web Tokens.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/introspection"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// notes contains the notes of each user.
type notes struct {
	mu     sync.Mutex
	byUser map[string][]string // by principal key
}

type note struct {
	Text string `json:"text" doc:"text of the note"`
}

func newServer(resource *auth.ProtectedResource) *server.Server {
	all := &notes{byUser: make(map[string][]string)}
	s := &server.Server{Name: "notes", Version: "1.0.0", Auth: resource}
	server.AddTool(s, mcp.Tool{Name: "list", Description: "List your notes"},
		func(ctx context.Context, _ struct{}) (string, error) {
			who := server.PrincipalOf(ctx)
			all.mu.Lock()
			defer all.mu.Unlock()
			return who.Subject() + "'s notes: " + strings.Join(all.byUser[who.Key()], ", "), nil
		})
	server.AddTool(s, mcp.Tool{Name: "add", Description: "Add a note"},
		func(ctx context.Context, in note) (string, error) {
			user := server.PrincipalOf(ctx).Key() // from the token, not from the arguments
			all.mu.Lock()
			defer all.mu.Unlock()
			all.byUser[user] = append(all.byUser[user], in.Text)
			return "added", nil
		}, server.RequireScopes("notes:write"))
	return s
}

// protect requires access tokens of an issuer for the server at uri. It verifies them with the keys of the issuer, or
// asks the issuer about each token if there is an introspection endpoint.
func protect(uri, issuer, endpoint string) *auth.ProtectedResource {
	resource := &auth.ProtectedResource{
		URI:              uri,
		Issuers:          []string{issuer},
		Scopes:           []string{"notes:read"}, // for each request
		AdvertisedScopes: []string{"notes:read"}, // clients ask for these at the first login
	}
	if endpoint == "" {
		return jwt.Protect(resource)
	}
	resource.Verifier = &introspection.Verifier{
		Endpoint: endpoint, Issuer: issuer,
		ClientID: "notes", ClientSecret: os.Getenv("INTROSPECTION_SECRET"),
	}
	return resource
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	issuer := flag.String("issuer", "", "issuer of the tokens; if empty, start a development authorization server")
	introspect := flag.String("introspect", "", "introspection endpoint of the issuer; if empty, tokens are JWTs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	if *issuer == "" {
		dev, err := devissuer.Start(devissuer.Config{
			Users:  []string{"ada", "grace"},
			Scopes: []string{"notes:read", "notes:write"},
			// The client of ../machine. The client credentials grant requires registration.
			Clients: []devissuer.Client{{ID: "nightly-report", Secret: os.Getenv("REPORT_SECRET")}},
		})
		if err != nil {
			log.Fatal(err)
		}
		defer dev.Close()
		*issuer = dev.URL()
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	uri := "http://" + listener.Addr().String() + "/mcp" // behind a proxy, use the URL that clients use
	log.Printf("listening at %s", uri)
	s := newServer(protect(uri, *issuer, *introspect))
	// At "/", the server also serves the metadata of the protected resource.
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		shutdown, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(shutdown)
		_ = web.Shutdown(shutdown)
	}()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
