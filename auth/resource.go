package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// ProtectedResource describes a server that requires access tokens over HTTP: its URI,
// the authorization servers that issue tokens for it, and the scopes that requests need.
// URI, Issuers and Verifier are the fields that most servers set; jwt.Protect sets
// Verifier and DPoP for JSON Web Tokens.
//
// Set the fields before the first use. A ProtectedResource must not be copied after that. It is safe for concurrent
// use, even by several servers and handlers.
type ProtectedResource struct {
	// URI is the URL of the server's endpoint, or a prefix of it, and the audience of its
	// tokens (2026-07-28, basic/authorization, Canonical Server URI). It must be https, or
	// http on the loopback interface. If URI is empty, the server uses the requested URL
	// on the loopback interface, and rejects requests on other interfaces, because the
	// client controls the Host header. Without Issuers and DPoP, URI is needed only for
	// tokens with an audience.
	URI string
	// Issuers are the authorization servers that clients get tokens from: issuer identifiers (RFC 8414, section 2). If
	// clients get their tokens elsewhere, as with API keys, leave it empty: the server then serves no metadata, and its
	// challenges name no issuer.
	Issuers []string
	// Verifier verifies the tokens. It must be set.
	Verifier Verifier
	// Audiences are the accepted audiences of tokens, if the authorization server does not use URI, for example the ID
	// of an application. They are compared byte for byte. Nil means URI.
	Audiences []string
	// Clients, if not nil, are the only clients whose tokens the server accepts.
	Clients []string
	// DPoP verifies proofs of possession (RFC 9449). Nil: the server rejects tokens that
	// are bound to a key.
	DPoP ProofVerifier
	// RequireDPoP makes the server reject bearer tokens. It needs DPoP.
	RequireDPoP bool

	// Scopes are the scopes that every request needs.
	Scopes []string
	// MethodScopes are the additional scopes that the requests of a method, such as
	// "tools/call", need. For single tools, prompts and resources see
	// server.RequireScopes.
	MethodScopes map[string][]string
	// Implies reports whether a granted scope includes a needed one (2026-07-28,
	// basic/authorization, Scope Challenge Handling). Nil: no scope includes another. It
	// must be safe for concurrent use.
	Implies func(granted, needed string) bool
	// AdvertisedScopes are the scopes that the metadata lists. Clients ask for them if no
	// challenge names scopes. Nil: Scopes.
	AdvertisedScopes []string

	// Name is shown to users who are asked for consent.
	Name string

	// OnReject, if set, is called with each request that is rejected, for example for an audit log. info
	// is nil unless the token is valid and a scope is missing. OnReject must be safe for concurrent use
	// and must not block. It must not record the headers of r, which contain the token.
	OnReject func(r *http.Request, info *Info, rejection *Rejection)

	Now func() time.Time // returns the current time; nil: time.Now

	once     sync.Once
	err      error
	endpoint endpoint // parsed URI; zero if URI is empty
}

// Check returns an error if a field has an invalid value.
func (p *ProtectedResource) Check() error {
	p.once.Do(func() { p.err = p.prepare() })
	return p.err
}

func (p *ProtectedResource) prepare() error {
	if p.URI != "" {
		if _, err := httpurl.ParseSecure(p.URI); err != nil {
			return fmt.Errorf("URI %q: %w", p.URI, err)
		}
		canonical, err := httpurl.Canonical(p.URI)
		if err != nil {
			return fmt.Errorf("URI %q: %w", p.URI, err)
		}
		p.endpoint = endpointOf(canonical)
	}
	for _, issuer := range p.Issuers {
		if err := httpurl.CheckIssuer(issuer); err != nil {
			return fmt.Errorf("issuer %q: %w", issuer, err)
		}
	}
	sets := [][]string{p.Scopes, p.AdvertisedScopes}
	for _, scopes := range p.MethodScopes {
		sets = append(sets, scopes)
	}
	for _, scopes := range sets {
		if err := challenge.CheckScopes(scopes); err != nil {
			return err
		}
	}
	switch {
	case p.Verifier == nil:
		return errors.New("Verifier must be set; for JSON Web Tokens use Protect of package auth/jwt")
	case slices.Contains(p.Audiences, "") || slices.Contains(p.Clients, ""):
		return errors.New("fields Audiences and Clients must not contain an empty text")
	case p.DPoP == nil && p.RequireDPoP:
		return errors.New("RequireDPoP needs DPoP to be set: use &jwt.ProofVerifier{}")
	}
	for _, field := range []any{p.Verifier, p.DPoP} {
		if checker, ok := field.(interface{ Check() error }); ok {
			if err := checker.Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *ProtectedResource) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// proofAlgorithms returns the algorithms of DPoP proofs; nil without DPoP.
func (p *ProtectedResource) proofAlgorithms() []string {
	if p.DPoP == nil {
		return nil
	}
	return p.DPoP.Algorithms()
}

// MetadataPath is the path of the metadata of protected resources. The path of the
// resource follows it (RFC 9728, section 3.1).
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata is the metadata document (RFC 9728, section 2).
type metadata struct {
	Resource     string   `json:"resource"`
	Issuers      []string `json:"authorization_servers"`
	Scopes       []string `json:"scopes_supported,omitempty"`
	Methods      []string `json:"bearer_methods_supported"`
	Name         string   `json:"resource_name,omitempty"`
	Algorithms   []string `json:"dpop_signing_alg_values_supported,omitempty"`
	DPoPRequired bool     `json:"dpop_bound_access_tokens_required,omitempty"`
}

// MetadataHandler returns a handler that serves the metadata of the resource to pages of
// all origins. Mount it at [MetadataPath] and at MetadataPath + "/" if the server itself
// is not mounted at "/". It serves the metadata URLs of the root and of the path of URI.
func (p *ProtectedResource) MetadataHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		p.ServeMetadata(w, r)
	})
}

// ServeMetadata serves the metadata of the resource, or status 404 if it has no Issuers.
// Unlike [ProtectedResource.MetadataHandler], it does not set Access-Control-Allow-Origin.
func (p *ProtectedResource) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	if len(p.Issuers) == 0 {
		http.NotFound(w, r)
		return
	}
	path, ok := strings.CutPrefix(pathOf(r), MetadataPath)
	if !ok { // a prefix was stripped, as by http.StripPrefix
		path = strings.TrimPrefix(r.URL.Path, MetadataPath)
	}
	err := p.Check()
	at := p.endpoint
	if err == nil && at.uri == "" {
		at, err = loopbackEndpoint(r, path)
	}
	own, _, _ := strings.Cut(at.path, "?")
	switch {
	case err != nil:
		http.Error(w, misconfigured, http.StatusInternalServerError)
		return
	case strings.Trim(path, "/") != "" && strings.TrimRight(path, "/") != strings.TrimRight(own, "/"):
		http.NotFound(w, r)
		return
	}
	scopes := p.AdvertisedScopes
	if scopes == nil {
		scopes = p.Scopes
	}
	uri := at.uri
	if p.URI != "" {
		uri = p.URI // clients repeat it byte for byte
	}
	document, _ := json.Marshal(metadata{ // cannot fail: the values are strings
		Resource: uri, Issuers: p.Issuers, Scopes: scopes, Methods: []string{"header"},
		Name: p.Name, Algorithms: p.proofAlgorithms(), DPoPRequired: p.RequireDPoP,
	})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "max-age=300")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(document)
}

// endpoint is the URI of a resource and its parts.
type endpoint struct {
	uri    string // canonical
	origin string // origin of uri
	path   string // path of uri, with its query if any
}

func endpointOf(canonical string) endpoint {
	start := strings.Index(canonical, "://") + len("://")
	slash := strings.IndexAny(canonical[start:], "/?")
	if slash < 0 {
		return endpoint{uri: canonical, origin: canonical}
	}
	return endpoint{canonical, canonical[:start+slash], canonical[start+slash:]}
}

// metadataURL returns the URL of the resource's metadata (RFC 9728, section 3.1).
func (e endpoint) metadataURL() string { return e.origin + MetadataPath + e.path }

// proofURLs returns the URLs, without query, that the DPoP proof of r may be for.
func (e endpoint) proofURLs(r *http.Request) []string {
	own, _, _ := strings.Cut(e.uri, "?")
	if requested, err := httpurl.Canonical(e.origin + pathOf(r)); err == nil && requested != own {
		return []string{own, requested}
	}
	return []string{own}
}

var errNoURI = errors.New("URI is empty: set the URI of the ProtectedResource; it may be empty only while the server " +
	"listens on the loopback interface")

// loopbackEndpoint returns the endpoint of a resource without URI, for a request over
// the loopback interface. The address that the request arrived at is known there, so the
// Host header only chooses among the names of that interface. A slash at the end of the path
// does not make another resource.
func loopbackEndpoint(r *http.Request, path string) (endpoint, error) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return endpoint{}, errNoURI
	}
	u := url.URL{Host: r.Host}
	host := u.Hostname()
	if !httpurl.IsLoopback(host) {
		return endpoint{}, errNoURI
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	canonical, err := httpurl.Canonical(scheme + "://" + net.JoinHostPort(host, strconv.Itoa(local.Port)) +
		strings.TrimRight(path, "/"))
	return endpointOf(canonical), err
}

// maxPath limits how many bytes of a request's path become part of a URI.
const maxPath = 1 << 10

// pathOf returns the path that the client requested. r.URL.Path can differ, as after
// http.StripPrefix.
func pathOf(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath()
	}
	return "/" + strings.TrimLeft(path[:min(len(path), maxPath)], "/")
}
