// Command behindproxy is a server behind a proxy that logs users in, such as Cloudflare Access or Identity-Aware Proxy.
// The proxy signs who the user is, and the program verifies the signature, so that a request that bypasses the proxy
// names nobody.
//
//	go run ./examples/behindproxy -addr 127.0.0.1:8080 -header Cf-Access-Jwt-Assertion \
//	  -issuer https://example.cloudflareaccess.com -audience 4714c1358e65fe4b \
//	  -keys https://example.cloudflareaccess.com/cdn-cgi/access/certs
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// proxy describes what the proxy signs, and with which keys.
type proxy struct {
	header, issuer, audience string
	keysURL                  string
	keys                     atomic.Pointer[jose.JSONWebKeySet]
}

// fetch fetches the public keys of the proxy, which change from time to time.
func (p *proxy) fetch() error {
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Get(p.keysURL)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	keys := new(jose.JSONWebKeySet)
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(keys); err != nil {
		return fmt.Errorf("keys of the proxy: %s: %w", resp.Status, err)
	}
	p.keys.Store(keys)
	return nil
}

// verify returns the user whom an assertion names, if the proxy has signed it for this server.
func (p *proxy) verify(assertion string) (*auth.Info, error) {
	signed, err := jwt.ParseSigned(assertion, []jose.SignatureAlgorithm{jose.RS256, jose.ES256})
	if err != nil {
		return nil, err
	}
	var claims jwt.Claims
	if err := signed.Claims(p.keys.Load(), &claims); err != nil {
		return nil, err
	}
	if claims.Expiry == nil {
		return nil, errors.New("the assertion never expires")
	}
	if err := claims.Validate(jwt.Expected{Issuer: p.issuer, AnyAudience: jwt.Audience{p.audience}}); err != nil {
		return nil, err
	}
	who, err := principal.New(p.issuer, claims.Subject, "")
	return &auth.Info{Principal: who, Expiry: claims.Expiry.Time()}, err
}

// authenticate puts the user whom the proxy has logged in into the context of each request.
func (p *proxy) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := p.verify(r.Header.Get(p.header))
		if err != nil {
			log.Printf("request of %s rejected: %v", r.RemoteAddr, err)
			http.Error(w, "log in at the proxy", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), info)))
	})
}

func main() {
	addr, p := flag.String("addr", "127.0.0.1:8080", "address to listen on"), new(proxy)
	flag.StringVar(&p.header, "header", "Cf-Access-Jwt-Assertion", "header with the assertion of the proxy")
	flag.StringVar(&p.issuer, "issuer", "", "issuer of the assertions: a URL")
	flag.StringVar(&p.audience, "audience", "", "audience of the assertions for this server")
	flag.StringVar(&p.keysURL, "keys", "", "URL of the public keys of the proxy")
	flag.Parse()
	if p.issuer == "" || p.audience == "" {
		log.Fatal("set -issuer, -audience and -keys")
	}
	if err := p.fetch(); err != nil {
		log.Fatal(err)
	}
	go func() {
		for range time.Tick(10 * time.Minute) {
			if err := p.fetch(); err != nil {
				log.Print(err)
			}
		}
	}()
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
