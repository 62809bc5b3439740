package logintest

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/auth"
)

// Proxy is an HTTP proxy between clients and a development issuer, which makes the issuer behave like other issuers: it
// binds the tokens of clients that send proofs to their keys (DPoP), and can refuse refresh tokens. It is safe for
// concurrent use.
type Proxy struct {
	server *httptest.Server

	mu      sync.Mutex
	keys    map[string]string // thumbprints by access token
	revoked bool
}

// NewProxy returns a proxy that runs until it is closed.
func NewProxy() *Proxy {
	p := &Proxy{keys: make(map[string]string)}
	reverse := &httputil.ReverseProxy{
		Rewrite:        func(*httputil.ProxyRequest) {}, // the URL is already absolute
		Transport:      &http.Transport{DisableKeepAlives: true},
		ModifyResponse: p.bind,
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if p.refuses(string(body)) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
				return
			}
		}
		reverse.ServeHTTP(w, r)
	}))
	return p
}

// Close stops the proxy.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
}

// Of returns the URL of the proxy, for http.Transport.Proxy and oauth.Client.Proxy.
func (p *Proxy) Of(*http.Request) (*url.URL, error) { return url.Parse(p.server.URL) }

// RevokeGrants makes the proxy refuse all refresh tokens from now on.
func (p *Proxy) RevokeGrants() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoked = true
}

func (p *Proxy) refuses(form string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revoked && strings.Contains(form, "grant_type=refresh_token")
}

// bind changes the response of the token endpoint to a request with a proof.
func (p *Proxy) bind(r *http.Response) error {
	request := r.Request
	if request.URL.Path != "/token" || request.Header.Get("DPoP") == "" || r.StatusCode != http.StatusOK {
		return nil
	}
	proof, err := jose.ParseSignedCompact(request.Header.Get("DPoP"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return err
	}
	key := proof.Signatures[0].Header.JSONWebKey
	if _, err := proof.Verify(key); err != nil {
		return err
	}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return err
	}
	var issued map[string]any
	if err := json.UnmarshalRead(r.Body, &issued); err != nil {
		return err
	}
	_ = r.Body.Close()
	issued["token_type"] = "DPoP"
	p.mu.Lock()
	p.keys[issued["access_token"].(string)] = base64.RawURLEncoding.EncodeToString(thumbprint)
	p.mu.Unlock()
	body, err := json.Marshal(issued)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Del("Content-Length")
	return err
}

// Verifier returns a verifier of the issuer's tokens that knows which keys they are bound to.
func (p *Proxy) Verifier(next auth.Verifier) auth.Verifier {
	return auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
		info, err := next.Verify(ctx, token)
		if err == nil {
			p.mu.Lock()
			info.KeyThumbprint = p.keys[token]
			p.mu.Unlock()
		}
		return info, err
	})
}
