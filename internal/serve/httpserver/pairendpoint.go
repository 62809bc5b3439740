package httpserver

import (
	"net/http"
	"strings"
)

// pathOf returns the path of the request as the client sent it. r.URL.Path may differ,
// because handlers such as http.StripPrefix change it.
func pathOf(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath()
	}
	return "/" + encodePath(strings.TrimLeft(path, "/")) // a reference that starts with two slashes names another host
}

// encodePath percent-encodes the bytes that must not occur in the path of a URL (RFC 3986,
// section 3.3). It keeps slashes and existing encodings. Browsers read a backslash as a
// slash, so "/\host" would name another host.
func encodePath(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(path) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@/%", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
