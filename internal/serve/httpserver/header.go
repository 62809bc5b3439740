package httpserver

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/internal/httpcodec"
)

// isUnencoded reports whether the values of a Content-Encoding header are empty or name no coding but identity.
func isUnencoded(codings []string) bool {
	for _, v := range codings {
		for coding := range strings.SplitSeq(v, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return false
			}
		}
	}
	return true
}

// accepted says which media types the Accept header of a request allows, by name or by range.
type accepted struct{ json, events bool }

// readAccept reads the Accept header. Without it, all media types are allowed.
func readAccept(h http.Header) (a accepted) {
	values := h["Accept"]
	// the form in the specification, which most clients send
	if len(values) == 0 || values[0] == httpcodec.AcceptBoth[0] {
		return accepted{true, true}
	}
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, params, _ := strings.Cut(part, ";")
			if isZeroQuality(params) {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/json", "application/*":
				a.json = true
			case "text/event-stream", "text/*":
				a.events = true
			case "*/*":
				return accepted{true, true}
			}
		}
	}
	return a
}

// isZeroQuality reports whether the parameters of a media range include a quality of 0,
// which excludes the range (RFC 9110, section 12.4.2).
func isZeroQuality(params string) bool {
	if params == "" {
		return false
	}
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			return err == nil && q == 0
		}
	}
	return false
}

type headerKey struct{}

// WithHeader returns a context of handlers that can read headers of their request; nil for none.
func WithHeader(ctx context.Context, header http.Header) context.Context {
	return context.WithValue(ctx, headerKey{}, header)
}

// HeaderOf returns the headers of the request that a handler serves, as far as Server.Headers names them.
func HeaderOf(ctx context.Context) http.Header {
	header, _ := ctx.Value(headerKey{}).(http.Header)
	return header
}

// withHeaders returns r with the headers in its context that Headers names, and with no others.
func (s *Server) withHeaders(r *http.Request) *http.Request {
	var found http.Header
	for _, name := range s.Headers() {
		if values := r.Header[name]; len(values) > 0 {
			if found == nil {
				found = make(http.Header)
			}
			found[name] = values
		}
	}
	if found == nil && HeaderOf(r.Context()) == nil {
		return r
	}
	return r.WithContext(WithHeader(r.Context(), found))
}
