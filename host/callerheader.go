package host

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/digest"
)

const (
	maxCallerHeaders     = 16      // per server
	maxCallerHeaderValue = 8 << 10 // bytes
)

// callerHeader is an entry of ServerConfig.CallerHeaders.
type callerHeader struct {
	from, to      string // canonical names
	before, after string // text before and after the caller's value
}

// callerHeaders returns the entries of CallerHeaders, ordered by the header of the caller.
func (config *ServerConfig) callerHeaders() (all []callerHeader, err error) {
	if len(config.CallerHeaders) > maxCallerHeaders {
		return nil, fmt.Errorf("at most %d headers can be passed on, got %d", maxCallerHeaders,
			len(config.CallerHeaders))
	}
	from, to := make(map[string]bool), make(map[string]bool)
	for name, text := range config.CallerHeaders {
		h, err := parseCallerHeader(name, text)
		if err != nil {
			return nil, err
		}
		if from[h.from] || to[h.to] {
			return nil, fmt.Errorf("%q: each header must occur once, in any case of its letters", name)
		}
		from[h.from], to[h.to] = true, true
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b callerHeader) int { return strings.Compare(a.from, b.from) })
	return all, nil
}

func parseCallerHeader(from, text string) (callerHeader, error) {
	to, format, ok := strings.Cut(text, ":")
	h := callerHeader{from: http.CanonicalHeaderKey(from), to: http.CanonicalHeaderKey(strings.TrimSpace(to))}
	before, after, once := strings.Cut(strings.TrimSpace(format), "${value}")
	h.before, h.after = before, after
	switch {
	case !ok || !once || strings.Contains(before+after, "${") || !isFieldValue(before+after):
		return h, fmt.Errorf(`%q must have the form "NAME: ${value}", with other text around ${value} if needed, such `+
			`as "Authorization: Bearer ${value}"`, from)
	case h.from == "Authorization":
		return h, errors.New("the header Authorization must not be passed on, because it authorizes callers here: " +
			"let them send the key for the server in another header, such as X-Server-Token")
	}
	for _, name := range []string{h.from, h.to} {
		if !isFieldName(name) {
			return h, fmt.Errorf("%q: %q must be the name of a header", from, name)
		}
		if isReservedHeader(name) {
			return h, fmt.Errorf("%q: %s must not be passed on, because it belongs to a connection or to the "+
				"protocol: use another header, such as X-Server-Token", from, name)
		}
	}
	return h, nil
}

// isReservedHeader reports whether a header is about the connection, is set by proxies, or belongs to the protocol.
func isReservedHeader(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Host", "Via",
		"Forwarded", "Cookie", "Set-Cookie", "Dpop", "Origin", "Referer", "Accept", "Range", "Last-Event-Id":
		return true
	}
	for _, prefix := range []string{"Proxy-", "Content-", "Accept-", "Mcp-", "Sec-", "If-", "Access-Control-",
		"X-Forwarded-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isFieldName reports whether a text is a token (RFC 9110, section 5.6.2).
func isFieldName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}

// isFieldValue reports whether a text is a valid header value.
func isFieldValue(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}

// CallerHeaders returns the names of all headers that some server receives because of [ServerConfig.CallerHeaders],
// such as X-Jira-Token. A gateway copies these headers of a request, and no others, into Caller.Header.
func (h *Host) CallerHeaders() []string {
	if r := h.roster.Load(); r != nil {
		return r.callerHeaders
	}
	return nil
}

// callerHeaderNames returns the canonical names of the headers that some servers receive.
func callerHeaderNames(of []*supervisor) []string {
	names := make(map[string]bool)
	for _, s := range of {
		for _, h := range s.callerHeaders {
			names[h.from] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// valueOf returns the value that a caller has sent; "" if there is none. The error does not contain it.
func (h *callerHeader) valueOf(c *Caller) (string, error) {
	values := c.Header[h.from]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || len(values[0]) > maxCallerHeaderValue || !isFieldValue(values[0]):
		return "", fmt.Errorf("host: the header %s of the caller must occur once, with at most %d bytes and without "+
			"control characters", h.from, maxCallerHeaderValue)
	}
	return strings.TrimSpace(values[0]), nil
}

// headersOf returns a digest of the headers that the server receives from a caller, even if the caller sends none. It
// is empty without CallerHeaders.
func (s *supervisor) headersOf(c *Caller) (string, error) {
	if len(s.callerHeaders) == 0 {
		return "", nil
	}
	parts := make([][]byte, 0, 2*len(s.callerHeaders))
	for i := range s.callerHeaders {
		h := &s.callerHeaders[i]
		value, err := h.valueOf(c)
		if err != nil {
			return "", err
		}
		if value != "" {
			parts = append(parts, []byte(h.from), []byte(value))
		}
	}
	return digest.Join(parts...), nil
}

// passHeaders makes a client send the headers of a caller to its server, and never the operator's headers in their
// place. No other server receives them.
func (s *supervisor) passHeaders(d *client.Dialer, c *Caller) {
	if len(s.callerHeaders) == 0 {
		return
	}
	header := make(http.Header, len(d.Header)+len(s.callerHeaders))
	for name, values := range d.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	for i := range s.callerHeaders {
		h := &s.callerHeaders[i]
		if header[h.to] = nil; h.to == "Authorization" {
			d.Auth = nil
		}
		if value, err := h.valueOf(c); err == nil && value != "" {
			header[h.to] = []string{h.before + value + h.after}
		}
	}
	d.Header = header
}

// passedHeaders returns the names of the caller's headers that the server receives with a request, for the audit
// log.
func (s *supervisor) passedHeaders(c *Caller) (names []string) {
	for i := range s.callerHeaders {
		if h := &s.callerHeaders[i]; c != nil && len(c.Header[h.from]) > 0 {
			names = append(names, h.from)
		}
	}
	return names
}

// missingKey names the headers of callers in the error of a server that rejects a caller's credentials.
func (s *supervisor) missingKey(c *Caller, err error) error {
	if len(s.callerHeaders) == 0 || c == nil || !isUnauthorized(err) {
		return err
	}
	var names []string
	for _, h := range s.callerHeaders {
		names = append(names, h.from)
	}
	return fmt.Errorf("%w: send a key that the server accepts in the header %s", err, strings.Join(names, " or "))
}
