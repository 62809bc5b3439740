package inspect

import (
	"bytes"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/jsonrpc"
)

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

// recorder records the messages of one server.
type recorder struct {
	log     *log
	server  string
	observe func(e *entry, m *jsonrpc.Message, text []byte) // called with each message, while the log is locked
}

// message records a message or a batch.
func (r *recorder) message(sent bool, text []byte, x *exchange) {
	text = bytes.Clone(bytes.TrimSpace(text)) // parsed messages refer to it, and the caller uses it again
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

// httpRecorder records the exchanges of one server over HTTP, which a traffic.Transport reports.
type httpRecorder struct {
	recorder
	secret map[string]bool // names of headers that are not recorded

	mu   sync.Mutex
	open map[int64]*exchange // by the number that the transport has given
}

// report records an event of an exchange.
func (r *httpRecorder) report(e traffic.Event) {
	x := r.exchange(&e)
	if x == nil { // the client has closed the stream meanwhile
		return
	}
	sent := e.From == traffic.Client
	switch {
	case len(e.Message) > traffic.MaxMessage:
		r.note(kindHTTP, sent, "body of more than 16 MiB, not recorded", nil, x)
	case e.Request != nil && len(e.Message) == 0:
		r.note(kindHTTP, true, e.Request.Method, nil, x)
	case e.Request != nil:
		r.message(true, e.Message, x)
	case e.Stream != nil && e.Stream.Name == "endpoint":
		r.note(kindHTTP, false, "event endpoint", e.Message, x)
	case e.Stream != nil:
		r.message(false, e.Message, x)
	case e.Response != nil:
		r.response(e.Response, bytes.TrimSpace(e.Message), x)
	case e.Error != "" && x.ResponseHeader == nil:
		r.note(kindHTTP, false, "no response", []byte(e.Error), x)
	}
}

// exchange returns the exchange of an event.
func (r *httpRecorder) exchange(e *traffic.Event) *exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Request != nil {
		r.open[e.Exchange] = &exchange{Method: e.Request.Method, URL: withoutUser(e.Request.URL), RequestHeader: redacted(e.Request.Header, r.secret)}
	}
	x := r.open[e.Exchange]
	if e.End {
		delete(r.open, e.Exchange)
	}
	return x
}

// response records a response, of an event stream without its events.
func (r *httpRecorder) response(resp *traffic.Response, body []byte, x *exchange) {
	r.log.responded(x, resp.Status, redacted(resp.Header, r.secret))
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case media == "text/event-stream":
	case media == "application/json" && len(body) > 0 && isMessage(body):
		r.message(false, body, x)
	case len(body) > 0 || resp.Status >= 300:
		r.note(kindHTTP, false, strings.TrimSpace(strconv.Itoa(resp.Status)+" "+http.StatusText(resp.Status)), body, x)
	}
}

// withoutUser returns a URL without user information.
func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// isMessage reports whether JSON is a message or a batch, and not another document such as an error of HTTP.
func isMessage(text []byte) bool {
	if jsonrpc.IsBatch(text) {
		return true
	}
	_, ok := jsonrpc.Get(text, "jsonrpc")
	return ok
}
