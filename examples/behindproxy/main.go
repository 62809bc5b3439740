// Command behindproxy is a server behind a proxy that logs users in, such as Cloudflare Access or Identity-Aware Proxy.
// The proxy signs who the user is: the program verifies the signature, so that a request that has not passed the proxy
// names nobody.
//
//	go run ./examples/behindproxy -addr 127.0.0.1:8080 -header Cf-Access-Jwt-Assertion \
//	  -issuer https://example.cloudflareaccess.com -audience 4714c1358e65fe4b \
//	  -keys https://example.cloudflareaccess.com/cdn-cgi/access/certs
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// proxy is what the proxy signs, and with which keys.
type proxy struct {
	header   string // which has the assertion
	audience string // that the proxy has given to this server
	verifier *jwt.Verifier
}

func newProxy(header, issuer, audience, keys string) *proxy {
	return &proxy{header, audience, &jwt.Verifier{Issuers: []string{issuer}, KeysURL: keys, Types: []string{"JWT"}}}
}

// authenticate puts the user whom the proxy has logged in into the context of each request.
func (p *proxy) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := p.verifier.Verify(r.Context(), r.Header.Get(p.header))
		if err != nil || !slices.Contains(info.Audience, p.audience) {
			log.Printf("request of %s rejected: %v", r.RemoteAddr, err)
			http.Error(w, "log in at the proxy", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), info)))
	})
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	header := flag.String("header", "Cf-Access-Jwt-Assertion", "header with the assertion of the proxy")
	issuer := flag.String("issuer", "", "issuer of the assertions: a URL")
	audience := flag.String("audience", "", "audience of the assertions for this server")
	keys := flag.String("keys", "", "URL of the public keys of the proxy")
	flag.Parse()
	p := newProxy(*header, *issuer, *audience, *keys)
	if err := p.verifier.Check(); err != nil || *audience == "" {
		log.Fatal("set -issuer, -audience and -keys: ", err)
	}
	s := &server.Server{Name: "behindproxy", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "whoami", Description: "Name the caller"},
		func(ctx context.Context, _ struct{}) (string, error) { return server.PrincipalOf(ctx).Subject(), nil })
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: p.authenticate(s), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}
