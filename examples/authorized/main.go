// Command authorized is a server over HTTP that wants to know who calls. Everybody with
// a token may read the notes; adding one takes a scope more, which clients ask their
// users for when it is needed.
//
//	go run ./examples/authorized -addr 127.0.0.1:8080
//	go run ./examples/login http://127.0.0.1:8080/mcp
//
// Tokens come from an authorization server for development, which lets anybody be
// anybody and listens on this machine only. In earnest, name your own with -issuer.
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
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// notes are those of each user.
type notes struct {
	mu sync.Mutex
	of map[string][]string
}

type note struct {
	Text string `json:"text" doc:"what to remember"`
}

func newServer(resource *auth.ProtectedResource) *server.Server {
	kept := &notes{of: make(map[string][]string)}
	s := &server.Server{Name: "notes", Version: "1.0.0", Auth: resource}
	server.AddTool(s, mcp.Tool{Name: "list", Description: "Show your notes"},
		func(ctx context.Context, _ struct{}) (string, error) {
			who := server.PrincipalOf(ctx)
			kept.mu.Lock()
			defer kept.mu.Unlock()
			return who.Subject() + " has noted: " + strings.Join(kept.of[who.Key()], ", "), nil
		})
	server.AddTool(s, mcp.Tool{Name: "add", Description: "Add a note"},
		func(ctx context.Context, in note) (string, error) {
			who := server.PrincipalOf(ctx).Key() // whoever the token is about, and not what they say
			kept.mu.Lock()
			defer kept.mu.Unlock()
			kept.of[who] = append(kept.of[who], in.Text)
			return "noted", nil
		}, server.RequireScopes("notes:write"))
	return s
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	issuer := flag.String("issuer", "", "who issues the tokens; empty: an authorization server for development is started")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	if *issuer == "" {
		dev, err := devissuer.Start(devissuer.Config{
			Users:  []string{"ada", "grace"},
			Scopes: []string{"notes:read", "notes:write"},
			// For ../machine; a client that acts for itself is known beforehand.
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
	uri := "http://" + listener.Addr().String() + "/mcp" // behind a proxy: the URL that clients use
	log.Printf("listening at %s", uri)
	s := newServer(jwt.Protect(&auth.ProtectedResource{
		URI:              uri,
		Issuers:          []string{*issuer},
		Scopes:           []string{"notes:read"},
		AdvertisedScopes: []string{"notes:read"},
	}))
	// At "/", the server answers for its metadata too.
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(grace)
		_ = web.Shutdown(grace)
	}()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
