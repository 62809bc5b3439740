// Command cookie is a web application whose users log in with a password and receive a session cookie. Its pages and
// their scripts use the MCP server with that cookie. The environment variable USERS contains the digests of the
// passwords.
//
//	USERS="ada=$(printf 4c6f7665 | sha256sum | cut -c 1-64)" go run ./examples/cookie -addr 127.0.0.1:8080
//	curl -i http://127.0.0.1:8080/login -d user=ada -d password=4c6f7665
//	parley call http://127.0.0.1:8080/mcp whoami --header 'Cookie: session=…'
package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// sessionLife is how long a user stays logged in.
const sessionLife = 8 * time.Hour

// application contains the sessions of the users, by the digests of their cookies. A real application keeps
// them in its database.
type application struct {
	passwords map[string]string // digests, by user; see ../basicauth
	sessions  sync.Map          // *auth.Info
}

func newApplication(users string) *application {
	a := &application{passwords: make(map[string]string)}
	for _, pair := range strings.Fields(users) {
		if user, digest, _ := strings.Cut(pair, "="); len(digest) == len(auth.HashKey("")) {
			a.passwords[user] = digest
		}
	}
	return a
}

// logIn checks the password of a user and begins a session.
func (a *application) logIn(w http.ResponseWriter, r *http.Request) {
	user, digest := r.PostFormValue("user"), auth.HashKey(r.PostFormValue("password"))
	who, err := principal.New("application", user, "")
	if err != nil || subtle.ConstantTimeCompare([]byte(digest), []byte(a.passwords[user])) == 0 {
		http.Error(w, "wrong name or password", http.StatusUnauthorized)
		return
	}
	id, end := rand.Text(), time.Now().Add(sessionLife)
	a.sessions.Store(auth.HashKey(id), &auth.Info{Principal: who, Expiry: end})
	http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/", Expires: end,
		HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// authenticate puts the user of a session into the context of each request. The server rejects requests from pages of
// other sites, because of their Origin, and requests after Info.Expiry.
func (a *application) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("session")
		if err != nil {
			http.Error(w, "log in at /login", http.StatusUnauthorized)
			return
		}
		session, ok := a.sessions.Load(auth.HashKey(cookie.Value))
		if !ok {
			http.Error(w, "the session has ended: log in at /login", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), session.(*auth.Info))))
	})
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	s := &server.Server{Name: "cookie", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "whoami", Description: "Name the caller"},
		func(ctx context.Context, _ struct{}) (string, error) { return server.PrincipalOf(ctx).Subject(), nil })
	app, mux := newApplication(os.Getenv("USERS")), http.NewServeMux()
	mux.Handle("POST /login", http.NewCrossOriginProtection().Handler(http.HandlerFunc(app.logIn)))
	mux.Handle("/mcp", app.authenticate(s))
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}
