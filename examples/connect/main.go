// Command connect is a server with a tool that requires an API key, which must not pass through
// the client or its model. The user enters the key on a page of the server (URL elicitation).
//
//	parley call repositories -- go run ./examples/connect
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// account stores the user's key. This server has one user, who starts it. A server with several users must store a key
// for each principal, and must verify, with its own login, that the user who opens the page is the user who received
// the link.
type account struct {
	base string // the URL of the page without its secret part

	mu      sync.Mutex
	page    string // the secret part of the URL; empty if there is no page
	key     string
	entered chan struct{} // closed when the user has entered the key
}

// newPage returns the secret part of the URL of a new page.
func (a *account) newPage() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.page = rand.Text()
	return a.page
}

// connected waits until the user has entered a key or ctx is done.
func (a *account) connected(ctx context.Context) (bool, error) {
	select {
	case <-a.entered:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func newServer(a *account) *server.Server {
	s := &server.Server{Name: "connect", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "repositories", Description: "Count the user's repositories"},
		func(ctx context.Context, _ struct{}) (string, error) {
			// In 2026-07-28 the handler runs again in each round. Once returns the same page.
			page, err := server.Once(ctx, "page", func(context.Context, string) (string, error) {
				return a.newPage(), nil
			})
			if err != nil {
				return "", err
			}
			if err := server.ElicitURL(ctx, a.base+page, "Enter the API key of your code host.",
				a.connected); err != nil {
				return "", err
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			return fmt.Sprintf("2 repositories, found with a key of %d characters", len(a.key)), nil
		})
	return s
}

// ServeHTTP serves the page until the user has entered a key.
func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.page == "" || r.PathValue("page") != a.page { // 128 random bits
		http.NotFound(w, r)
		return
	}
	key := ""
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		key = r.PostFormValue("key")
	}
	if key == "" {
		fmt.Fprint(w,
			`<!doctype html><title>Connect</title><form method="post"><label>API key <input name="key" `+
				`type="password" required></label> <button>Connect</button></form>`)
		return
	}
	if a.key == "" {
		close(a.entered)
	}
	a.key, a.page = key, ""
	fmt.Fprint(w, `<!doctype html><title>Connected</title>You are connected. You can close this page.`)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	a := &account{base: fmt.Sprintf("http://%s/connect/", listener.Addr()), entered: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("/connect/{page}", a)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Print(web.Serve(listener)) }()
	if err := newServer(a).Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
