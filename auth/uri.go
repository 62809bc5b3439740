package auth

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// canonicalURI writes a resource's URI in the one way in which it is compared: scheme
// and host in lower case, without a default port, and without the slash that an empty
// path may be written as (2026-07-28, basic/authorization, Canonical Server URI).
func canonicalURI(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || strings.Contains(text, "#") {
		return "", errNotURL
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := u.Port(); scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	path := u.EscapedPath()
	if path == "/" {
		path = ""
	}
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	return scheme + "://" + host + path, nil
}

// endpoint is a resource as one request has reached it.
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

// metadataURL is where clients find the resource's metadata (RFC 9728, section 3.1).
func (e endpoint) metadataURL() string { return e.origin + MetadataPath + e.path }

// targets are the URLs, without query, that the proof of a request may be for.
func (e endpoint) targets(r *http.Request) []string {
	own, _, _ := strings.Cut(e.uri, "?")
	if asked, err := canonicalURI(e.origin + pathOf(r)); err == nil && asked != own {
		return []string{own, asked}
	}
	return []string{own}
}

var errUnnamed = errors.New("the server does not know its own URI: set URI in its auth.ProtectedResource")

// loopbackEndpoint names a resource that nobody has named: on the loopback interface,
// where the address that the request came to is known. What the client says of the host
// decides no more than which of that interface's names is used.
func loopbackEndpoint(r *http.Request, path string) (endpoint, error) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return endpoint{}, errUnnamed
	}
	u := url.URL{Host: r.Host}
	host := u.Hostname()
	if !isLoopback(host) {
		return endpoint{}, errUnnamed
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	canonical, err := canonicalURI(scheme + "://" + net.JoinHostPort(host, strconv.Itoa(local.Port)) + path)
	return endpointOf(canonical), err
}

// maxPath bounds what a request's path may add to a URI of ours, in bytes.
const maxPath = 1 << 10

// pathOf is the path under which the client knows the endpoint, which is not what the
// program's own routing has made of it.
func pathOf(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath()
	}
	return "/" + strings.TrimLeft(path[:min(len(path), maxPath)], "/")
}
