package http1

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
)

// maxBody limits the body of a request, in bytes. A server may respond before it has read a larger body, and a Transport does not
// read while it writes.
const maxBody = 16 << 10

// canSend reports whether this Transport sends a request. Others are left to the http.Transport.
func (t *Transport) canSend(req *http.Request) bool {
	u := req.URL
	if u == nil || u.Scheme != "http" || u.Opaque != "" || t.unusable.Load() {
		return false
	}
	//lint:ignore SA1019 programs may still set Cancel
	hasCancel := req.Cancel != nil
	switch {
	case req.Method != http.MethodGet && req.Method != http.MethodPost && req.Method != http.MethodDelete,
		hasCancel, req.Close, req.Trailer != nil, req.TransferEncoding != nil, httptrace.ContextClientTrace(req.Context()) != nil,
		hasBody(req) && (req.ContentLength <= 0 || req.ContentLength > maxBody || req.GetBody == nil),
		!isPlainHost(u.Host), req.Host != "" && !isPlainHost(req.Host), !isPlainPath(u.RequestURI()), !isPlainHeader(req.Header):
		return false
	case t.base.Proxy == nil:
		return true
	}
	proxy, err := t.base.Proxy(req)
	return proxy == nil && err == nil
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// addressOf returns the host and port of a URL.
func addressOf(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// isPlainHost reports whether a host, with a port or not, can be sent unchanged. Others, such as IPv6 addresses with a zone, are
// left to the http.Transport.
func isPlainHost(host string) bool {
	for i := range len(host) {
		if c := host[i]; !isAlphanumeric(c) && !strings.ContainsRune(".-_:[]", rune(c)) {
			return false
		}
	}
	return host != ""
}

// isPlainPath reports whether a path and query can be sent unchanged.
func isPlainPath(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7F {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// isPlainHeader reports whether the fields of a header can be sent unchanged, in addition to those that every request has. It
// accepts fewer than RFC 9110 does: an http.Transport decides about others.
func isPlainHeader(h http.Header) bool {
	for name, values := range h {
		if http.CanonicalHeaderKey(name) != name {
			return false
		}
		switch name {
		case "", "Connection", "Content-Length", "Expect", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent":
			return false
		}
		for i := range len(name) {
			if c := name[i]; c != '-' && !isAlphanumeric(c) {
				return false
			}
		}
		for _, value := range values {
			for i := range len(value) {
				if c := value[i]; c < ' ' || c == 0x7F {
					return false
				}
			}
		}
	}
	return true
}

// again returns a request with its body from the beginning.
func again(req *http.Request) (*http.Request, error) {
	if !hasBody(req) {
		return req, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("http1: cannot repeat a request: %w", err)
	}
	repeated := *req
	repeated.Body = body
	return &repeated, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
