package inspect

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/jsonrpc"
)

// maxBody is the size of an HTTP response body, or of one event, above which its message is not recorded.
const maxBody = 32 << 20

// hidden replaces the values of headers with credentials.
const hidden = "[hidden]"

// secretHeaders are the names of headers with credentials, in lower case.
var secretHeaders = []string{"authorization", "proxy-authorization", "cookie", "set-cookie", "dpop", "x-api-key"}

// redacted returns a copy of a header without credentials.
func redacted(header http.Header, names map[string]bool) http.Header {
	kept := make(http.Header, len(header))
	for name, values := range header {
		if names[textproto.CanonicalMIMEHeaderKey(name)] {
			values = []string{hidden}
		}
		kept[name] = values
	}
	return kept
}

// secretNames returns the names of headers that are not recorded: those with credentials and those that the
// user sets.
func secretNames(set http.Header) map[string]bool {
	names := make(map[string]bool)
	for _, name := range secretHeaders {
		names[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	for name := range set {
		names[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	return names
}

// wiretap records the exchanges of one server over HTTP.
type wiretap struct {
	next   http.RoundTripper
	secret map[string]bool
	record recorder
}

// recorder records the messages of one server.
type recorder struct {
	log     *log
	server  string
	observe func(e *entry, m *jsonrpc.Message, text []byte) // called with each message, while the log is locked
}

// message records a message or a batch.
func (r *recorder) message(sent bool, text []byte, x *exchange) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return
	}
	if jsonrpc.IsBatch(text) {
		if messages, err := jsonrpc.SplitBatch(text, jsonrpc.Limits{}); err == nil {
			for _, one := range messages {
				r.one(sent, one, x)
			}
			return
		}
	}
	r.one(sent, text, x)
}

func (r *recorder) one(sent bool, text []byte, x *exchange) {
	e, m := describe(r.server, sent, text)
	e.exchange = x
	r.log.add(e, text, func() {
		if m != nil {
			r.observe(e, m, text)
		}
	})
}

// note records something that is not a message.
func (r *recorder) note(kind string, sent bool, method string, text []byte, x *exchange) {
	r.log.add(&entry{Server: r.server, Sent: sent, Kind: kind, Method: method, exchange: x}, text, func() {})
}

// RoundTrip implements http.RoundTripper.
func (t *wiretap) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{Method: req.Method, URL: shownURL(req), RequestHeader: redacted(req.Header, t.secret)}
	body, req, err := readBody(req)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		t.record.note(kindHTTP, true, req.Method, nil, x)
	} else {
		t.record.message(true, body, x)
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		t.record.note(kindHTTP, false, "no response", []byte(httpurl.Redact(err).Error()), x)
		return nil, err
	}
	t.record.log.responded(x, resp, t.secret)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Body = &tappedBody{ReadCloser: resp.Body, record: &t.record, exchange: x, events: media == "text/event-stream", json: media == "application/json"}
	return resp, nil
}

// CloseIdleConnections lets http.Client close the idle connections of the next transport.
func (t *wiretap) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// shownURL returns the URL of a request without user information.
func shownURL(req *http.Request) string {
	u := *req.URL
	u.User = nil
	return u.String()
}

// readBody returns the body of a request, and a request with the same body.
func readBody(req *http.Request) ([]byte, *http.Request, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, req, nil
	}
	body, err := io.ReadAll(req.Body)
	if err2 := req.Body.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return nil, nil, err
	}
	again := req.Clone(req.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	return body, again, nil
}

// tappedBody records the messages of a response when the client has read them.
type tappedBody struct {
	io.ReadCloser
	record   *recorder
	exchange *exchange
	events   bool
	json     bool

	mu   sync.Mutex
	text []byte // read and not recorded yet
	over bool   // text has exceeded maxBody
	done sync.Once
}

// Read implements io.Reader.
func (b *tappedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	switch {
	case b.over:
	case len(b.text)+n > maxBody:
		b.over, b.text = true, nil
	default:
		b.text = append(b.text, p[:n]...)
	}
	if b.events && n > 0 {
		b.takeEvents()
	}
	b.mu.Unlock()
	if err != nil {
		b.finish()
	}
	return n, err
}

// Close implements io.Closer.
func (b *tappedBody) Close() error {
	b.finish()
	return b.ReadCloser.Close()
}

// finish records what remains.
func (b *tappedBody) finish() {
	b.done.Do(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		text := bytes.TrimSpace(b.text)
		status := b.exchange.Status
		switch {
		case b.over:
			b.record.note(kindHTTP, false, "response of more than 32 MiB, not recorded", nil, b.exchange)
		case b.events: // an incomplete event is not a message
		case b.json && len(text) > 0 && isMessage(text):
			b.record.message(false, text, b.exchange)
		case len(text) > 0 || status >= 300:
			b.record.note(kindHTTP, false, strings.TrimSpace(strconv.Itoa(status)+" "+http.StatusText(status)), text, b.exchange)
		}
		b.text = nil
	})
}

// isMessage reports whether JSON is a message or a batch, and not another document such as an error of HTTP.
func isMessage(text []byte) bool {
	if jsonrpc.IsBatch(text) {
		return true
	}
	_, ok := jsonrpc.Get(text, "jsonrpc")
	return ok
}

// takeEvents records the complete events. It is called with mu held.
func (b *tappedBody) takeEvents() {
	for {
		end, size := endOfEvent(b.text)
		if end < 0 {
			return
		}
		event := b.text[:end]
		b.text = b.text[end+size:]
		var kind string
		var data []byte
		for line := range bytes.SplitSeq(event, []byte("\n")) {
			line = bytes.TrimSuffix(line, []byte("\r"))
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "data":
				data = append(append(data, value...), '\n')
			case "event":
				kind = string(value)
			}
		}
		switch {
		case len(bytes.TrimSpace(data)) == 0:
		case kind == "endpoint":
			b.record.note(kindHTTP, false, "event endpoint", data, b.exchange)
		default:
			b.record.message(false, data, b.exchange)
		}
	}
}

// endOfEvent returns the index of the blank line that ends the first event, and its size; -1 if there is none.
func endOfEvent(text []byte) (end, size int) {
	end, size = -1, 0
	for _, blank := range []string{"\n\n", "\r\n\r\n"} {
		if i := bytes.Index(text, []byte(blank)); i >= 0 && (end < 0 || i < end) {
			end, size = i, len(blank)
		}
	}
	return end, size
}
