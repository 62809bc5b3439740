package auth

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// endpoint is the URI of a resource and its parts.
type endpoint struct {
	uri    string // canonical
	origin string // of uri
	path   string // of uri, with the query if it has one
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

var errNoURI = errors.New("URI is empty: set the URI of the ProtectedResource; it may be empty only while the server listens on the loopback interface")

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
	canonical, err := httpurl.Canonical(scheme + "://" + net.JoinHostPort(host, strconv.Itoa(local.Port)) + strings.TrimRight(path, "/"))
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
