package inspect

import (
	"bytes"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/secretname"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Limits of the log. When one is reached, the log drops its oldest messages.
const (
	maxMessages = 10_000
	maxTexts    = 64 << 20 // bytes of all kept texts
	maxText     = 1 << 20  // bytes of the kept text of one message
	maxPending  = 10_000   // requests whose responses are awaited
)

// The kinds of log entries.
const (
	kindRequest      = "request"
	kindResponse     = "response"
	kindError        = "error"
	kindNotification = "notification"
	kindHTTP         = "http"    // HTTP without a message of the protocol
	kindInvalid      = "invalid" // not a message
	kindProgram      = "program" // a line that the server's program writes to stderr
)

// entry describes a message of the log. The page receives its text on request.
type entry struct {
	Number  uint64    `json:"number"` // 1 for the first message
	Time    time.Time `json:"time"`
	Server  string    `json:"server"`
	Sent    bool      `json:"sent"` // by the client
	Kind    string    `json:"kind"`
	Method  string    `json:"method,omitempty"`  // of a response: that of its request
	Subject string    `json:"subject,omitempty"` // name of the tool or prompt, URI or task
	ID      string    `json:"id,omitempty"`      // as JSON
	Size    int       `json:"size"`              // bytes of the whole message
	Status  int       `json:"status,omitempty"`  // of the HTTP response, if there is one
	Millis  float64   `json:"millis,omitempty"`  // of a response: since its request
	Call    uint64    `json:"call,omitempty"`    // number of the call
	Request uint64    `json:"request,omitempty"` // of a response: number of its request

	text     []byte
	exchange *exchange // nil unless the message is sent over HTTP
}

// exchange is an HTTP request and its response. The mutex of the log guards it.
type exchange struct {
	Method         string      `json:"method"`
	URL            string      `json:"url"`
	RequestHeader  http.Header `json:"requestHeader"`
	Status         int         `json:"status,omitempty"` // 0 before the response
	ResponseHeader http.Header `json:"responseHeader,omitempty"`
}

// pendingKey identifies a request whose response is awaited.
type pendingKey struct {
	server string
	sent   bool
	id     string
}

// log keeps the latest messages of all servers.
type log struct {
	now func() time.Time

	mu      sync.Mutex
	entries []*entry // without gaps between their numbers
	last    uint64   // number of the newest entry
	bytes   int      // of the kept texts
	pending map[pendingKey]*entry
	wake    func() // called without mu after each change
}

// dropOldest is called with mu held.
func (l *log) dropOldest() {
	l.bytes -= len(l.entries[0].text)
	l.entries[0] = nil
	l.entries = l.entries[1:]
}

// add adds an entry. The log keeps a copy of text. It calls observe with mu held when the entry has its number.
func (l *log) add(e *entry, text []byte, observe func()) {
	e.Size = len(text)
	e.text = bytes.Clone(text[:min(len(text), maxText)])
	e.Time = l.now()
	l.mu.Lock()
	l.last++
	e.Number = l.last
	for len(l.entries) == maxMessages || len(l.entries) > 0 && l.bytes+len(e.text) > maxTexts {
		l.dropOldest()
	}
	l.entries = append(l.entries, e)
	l.bytes += len(e.text)
	l.pair(e)
	if e.exchange != nil && !e.Sent {
		e.Status = e.exchange.Status
	}
	observe()
	l.mu.Unlock()
	l.wake()
}

// pair connects requests and responses. It is called with mu held.
func (l *log) pair(e *entry) {
	switch e.Kind {
	case kindRequest:
		if len(l.pending) >= maxPending {
			clear(l.pending)
		}
		l.pending[pendingKey{e.Server, e.Sent, e.ID}] = e
	case kindResponse, kindError:
		key := pendingKey{e.Server, !e.Sent, e.ID}
		if request := l.pending[key]; request != nil {
			delete(l.pending, key)
			e.Method, e.Subject, e.Request, e.Call = request.Method, request.Subject, request.Number, request.Call
			e.Millis = float64(e.Time.Sub(request.Time).Microseconds()) / 1000
		}
	}
}

// describe returns the entry of a message, without the fields that add sets.
func describe(server string, sent bool, text []byte) (*entry, *jsonrpc.Message) {
	e := &entry{Server: server, Sent: sent, Kind: kindInvalid}
	m, err := jsonrpc.Parse(text, jsonrpc.Limits{})
	if err != nil {
		return e, nil
	}
	if !m.ID.IsZero() {
		e.ID = string(m.ID.Append(nil))
	}
	e.Method = m.Method
	switch m.Kind {
	case jsonrpc.Request:
		e.Kind = kindRequest
	case jsonrpc.Notification:
		e.Kind = kindNotification
	case jsonrpc.Response:
		e.Kind = kindResponse
		if m.Err != nil {
			e.Kind = kindError
		}
		return e, &m
	}
	for _, name := range []string{"name", "uri", "taskId"} {
		if value, ok := m.Params.Get(name); ok && len(value) > 1 && value[0] == '"' {
			e.Subject = terminal.Shorten(jsonrpc.Unquote(value), 200)
			break
		}
	}
	return e, &m
}

// responded records the response of an exchange.
func (l *log) responded(x *exchange, status int, header http.Header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.Status, x.ResponseHeader = status, header
}

// after returns copies of the entries with numbers above number, and the number of the oldest kept entry.
func (l *log) after(number uint64) (entries []entry, oldest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return nil, l.last + 1
	}
	oldest = l.entries[0].Number
	for i := max(number+1, oldest); i <= l.last; i++ {
		entries = append(entries, *l.entries[i-oldest])
	}
	return entries, oldest
}

// find returns a copy of an entry with its text, and a copy of its exchange; ok is false if the log does not have it.
func (l *log) find(number uint64) (e entry, x *exchange, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 || number < l.entries[0].Number || number > l.last {
		return entry{}, nil, false
	}
	found := l.entries[number-l.entries[0].Number]
	if found.exchange != nil {
		copied := *found.exchange
		x = &copied
	}
	return *found, x, true
}

// search returns the numbers of the entries whose text or headers contain words, without regard to case.
func (l *log) search(words string) []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []uint64{}
	want := bytes.ToLower([]byte(words))
	for _, e := range l.entries {
		x := e.exchange
		if bytes.Contains(bytes.ToLower(e.text), want) ||
			x != nil && headersContain([]http.Header{x.RequestHeader, x.ResponseHeader}, want) {
			found = append(found, e.Number)
		}
	}
	return found
}

func headersContain(headers []http.Header, want []byte) bool {
	for _, header := range headers {
		for name, values := range header {
			for _, value := range values {
				if bytes.Contains(bytes.ToLower([]byte(name+": "+value)), want) {
					return true
				}
			}
		}
	}
	return false
}

// clear drops all entries.
func (l *log) clear() {
	l.mu.Lock()
	l.entries, l.bytes = nil, 0
	clear(l.pending)
	l.mu.Unlock()
	l.wake()
}

// hidden replaces the values of headers with credentials.
const hidden = "[hidden]"

// redacted returns a copy of a header without credentials, and without the headers whose names are in secret.
func redacted(header http.Header, secret []string) http.Header {
	kept := make(http.Header, len(header))
	for name, values := range header {
		if secretname.IsHeader(name, secret) {
			values = []string{hidden}
		}
		kept[name] = values
	}
	return kept
}

// secretHeaders returns the names of the headers with secrets besides those whose names say so: those that the user
// sets for a server, and those with keys of callers.
func (h *hub) secretHeaders(set http.Header) []string {
	return slices.Concat(slices.Collect(maps.Keys(set)), h.callerHeaders())
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

// httpRecorder records the exchanges of one server over HTTP, which a recording.Transport reports.
type httpRecorder struct {
	recorder
	secret []string // names of further headers that are not recorded

	mu   sync.Mutex
	open map[int64]*exchange // by the number that the transport has given
}

// report records an event of an exchange.
func (r *httpRecorder) report(e recording.Event) {
	x := r.exchange(&e)
	if x == nil { // the client has closed the stream meanwhile
		return
	}
	sent := e.From == recording.Client
	switch {
	case len(e.Message) > recording.MaxMessage:
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
func (r *httpRecorder) exchange(e *recording.Event) *exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Request != nil {
		r.open[e.Exchange] = &exchange{Method: e.Request.Method, URL: withoutUser(e.Request.URL),
			RequestHeader: redacted(e.Request.Header, r.secret)}
	}
	x := r.open[e.Exchange]
	if e.End {
		delete(r.open, e.Exchange)
	}
	return x
}

// response records a response, of an event stream without its events.
func (r *httpRecorder) response(resp *recording.Response, body []byte, x *exchange) {
	r.log.responded(x, resp.Status, redacted(resp.Header, r.secret))
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case media == "text/event-stream":
	case media == "application/json" && len(body) > 0 && recording.IsMessage(body):
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
