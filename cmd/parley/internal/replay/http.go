package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
)

// httpPeer is a server over HTTP.
type httpPeer struct {
	r        *replayer
	ctx      context.Context
	cancel   context.CancelFunc
	client   http.Client
	recorded *url.URL
	target   *url.URL
	sending  sync.WaitGroup

	mu      sync.Mutex
	cancels map[int64]context.CancelFunc // by exchange
}

func newHTTPPeer(ctx context.Context, r *replayer, recorded, target string) (peer, error) {
	p := &httpPeer{r: r, cancels: make(map[int64]context.CancelFunc)}
	var err error
	if p.recorded, err = recordedURL(recorded); err != nil {
		return nil, err
	}
	if p.target, err = url.Parse(target); err != nil {
		return nil, fmt.Errorf("invalid URL of the server: %w", err)
	}
	p.client.Transport = httpclient.NewTransport()
	if r.options.HTTP != nil {
		p.client = *r.options.HTTP
	}
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p, nil
}

// send implements peer. It skips requests that are not to the endpoint of the server, such as those to an
// authorization server.
func (p *httpPeer) send(e *traffic.Entry) (bool, error) {
	if e.Request == nil {
		return false, nil
	}
	to, ok := p.urlOf(e.Request.URL)
	if !ok {
		return false, nil
	}
	body := p.r.outgoing(e)
	ctx, cancel := context.WithCancel(p.ctx)
	req, err := http.NewRequestWithContext(ctx, e.Request.Method, to, bytes.NewReader(body))
	if err != nil {
		cancel()
		return false, err
	}
	p.setHeader(req, e.Request.Header)
	p.mu.Lock()
	p.cancels[e.Exchange] = cancel
	p.mu.Unlock()
	p.r.trace(p.r.options.Sent, body)
	p.sending.Go(func() { p.exchange(ctx, e.Exchange, req) })
	return true, nil
}

// urlOf returns where to send a request that was sent to a URL.
func (p *httpPeer) urlOf(text string) (to string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host != p.recorded.Host {
		return "", false
	}
	if u.Path == p.recorded.Path && u.RawQuery == p.recorded.RawQuery {
		return p.target.String(), true
	}
	for recorded, replayed := range p.r.values { // the endpoint of HTTP+SSE
		if endpoint, err := p.recorded.Parse(recorded); err == nil && endpoint.String() == u.String() {
			if to, err := p.target.Parse(replayed); err == nil && to.Host == p.target.Host {
				return to.String(), true
			}
		}
	}
	return "", false
}

// setHeader sets the headers of a recorded request, with the values that the server has chosen in this replay. It
// leaves out credentials that the recording does not have.
func (p *httpPeer) setHeader(req *http.Request, header http.Header) {
	for name, values := range header {
		switch name {
		case "Host", "Content-Length", "Connection", "Accept-Encoding", "Transfer-Encoding":
			continue
		}
		for _, value := range values {
			if replayed, ok := p.r.values[value]; ok &&
				(name == "Mcp-Session-Id" || name == "Last-Event-Id" || name == "Mcp-Name") {
				value = replayed
			} else if name != "Mcp-Session-Id" && strings.Contains(value, "redacted-") {
				continue
			}
			req.Header.Add(name, value)
		}
	}
	for name, values := range p.r.options.Header {
		req.Header[name] = values
	}
}

// exchange sends a request and passes on what the server sends.
func (p *httpPeer) exchange(ctx context.Context, number int64, req *http.Request) {
	pass := func(got received) {
		got.exchange = number
		if got.message != nil {
			p.r.trace(p.r.options.Received, got.message.raw)
		}
		select {
		case p.r.received <- got:
		case <-ctx.Done():
		}
	}
	defer pass(received{end: true})
	observer := &traffic.Transport{Base: p.client.Transport, Report: func(e traffic.Event) {
		message := append([]byte(nil), e.Message...)
		switch {
		case e.From == traffic.Client:
			return
		case e.Response != nil:
			pass(received{head: e.Response})
		case e.Stream != nil && e.Stream.Name == "endpoint":
			pass(received{endpoint: string(message)})
			return
		case e.Stream != nil && len(message) == 0:
			pass(received{id: e.Stream.ID})
			return
		}
		if len(message) > 0 {
			got := received{message: parse(message)}
			if e.Stream != nil {
				got.id = e.Stream.ID
			}
			pass(got)
		}
	}}
	client := p.client
	client.Transport = observer
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // the observer passes on what it reads
}

// endStream implements peer.
func (p *httpPeer) endStream(e *traffic.Entry) {
	p.mu.Lock()
	cancel := p.cancels[e.Exchange]
	p.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (p *httpPeer) close() {
	p.cancel()
	p.sending.Wait()
	p.client.CloseIdleConnections()
}

// onStreams returns the messages of a recording of HTTP as a client sends and receives them on byte streams. Their
// Exchange is the number of the stream, from 1: each session has its own. Requests of 2026-07-28 share a stream unless
// their ids are equal. recorded is the URL of the server. skipped is the number of requests without an answer of the
// protocol, such as those to an authorization server.
func onStreams(recorded *url.URL, entries []traffic.Entry) (messages []traffic.Entry, skipped int) {
	c := converter{
		recorded: recorded, exchanges: make(map[int64]*httpExchange), answered: make(map[int64]bool),
		sessions: make(map[string]int64), endpoints: make(map[string]int64), inFlight: make(map[int64]map[string]bool),
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.From == traffic.Client && e.End, e.Response != nil && e.Response.Status < 300,
			e.From == traffic.Server && len(e.Message) > 0 && isOfProtocol(parse(e.Message)):
			c.answered[e.Exchange] = true
		}
	}
	for _, e := range ordered(entries) {
		switch {
		case e.Request != nil:
			c.request(e)
		case e.From == traffic.Server:
			c.response(e)
		case e.End:
			c.closed(e)
		}
	}
	return c.messages, c.skipped
}

// isOfProtocol reports whether a text is a message or a batch.
func isOfProtocol(m *message) bool {
	return m.isBatch || !m.invalid && (m.Method != "" || m.isResponse())
}

// converter converts the entries of a recording, in their order.
type converter struct {
	recorded  *url.URL
	answered  map[int64]bool // exchanges with a message of the server, with a status of success, or closed by the client
	exchanges map[int64]*httpExchange
	streams   int64            // number of the last stream
	session   int64            // stream of the last session, for servers that do not name theirs
	sessions  map[string]int64 // streams by Mcp-Session-Id
	endpoints map[string]int64 // streams by the endpoint of HTTP+SSE
	shared    []int64          // streams of 2026-07-28
	inFlight  map[int64]map[string]bool
	messages  []traffic.Entry
	skipped   int
}

// httpExchange is a request whose response can still have messages.
type httpExchange struct {
	stream     int64
	id         jsontext.Value // of a request of 2026-07-28 that is not answered; nil for others
	initialize bool
	events     bool // the stream of HTTP+SSE
}

func (c *converter) add(e *traffic.Entry, stream int64, message []byte, end bool) {
	c.messages = append(c.messages, traffic.Entry{Line: e.Line, Event: traffic.Event{
		Time: e.Time, From: e.From, Wire: traffic.Stdio, Exchange: stream, Message: message, Truncated: e.Truncated, End: end,
	}})
}

// start returns a new stream.
func (c *converter) start() int64 {
	c.streams++
	c.inFlight[c.streams] = make(map[string]bool)
	return c.streams
}

// request adds the message of a request, or the end of a session.
func (c *converter) request(e *traffic.Entry) {
	x := new(httpExchange)
	c.exchanges[e.Exchange] = x
	u, err := url.Parse(e.Request.URL)
	if err != nil || u.Host != c.recorded.Host {
		c.skipped++
		return
	}
	session, named := c.sessions[e.Request.Header.Get("Mcp-Session-Id")]
	if !named {
		session = c.session
	}
	if e.Request.Method != http.MethodPost {
		x.stream = session
		if e.Request.Method == http.MethodDelete && named {
			c.add(e, session, nil, true)
		}
		return
	}
	m := parse(e.Message)
	endpoint, ofPair := c.endpoints[u.String()]
	switch {
	case !c.answered[e.Exchange] || !ofPair && (u.Path != c.recorded.Path || u.RawQuery != c.recorded.RawQuery):
		c.skipped++
		return
	case ofPair:
		x.stream = endpoint
	case m.isModern():
		x.stream, x.id = c.sharedStream(string(m.ID)), m.ID
		c.inFlight[x.stream][string(m.ID)] = m.ID != nil
	case m.Method == "initialize":
		c.session = c.start()
		x.stream, x.initialize = c.session, true
	default:
		x.stream = session
	}
	if x.stream == 0 {
		c.skipped++
		return
	}
	c.add(e, x.stream, e.Message, false)
}

// sharedStream returns a stream of 2026-07-28 on which no request with an id is in flight.
func (c *converter) sharedStream(id string) int64 {
	for _, stream := range c.shared {
		if !c.inFlight[stream][id] {
			return stream
		}
	}
	c.shared = append(c.shared, c.start())
	return c.streams
}

// response adds the message of a response or event.
func (c *converter) response(e *traffic.Entry) {
	x := c.exchanges[e.Exchange]
	if x == nil {
		return
	}
	if e.Response != nil && x.initialize {
		if id := e.Response.Header.Get("Mcp-Session-Id"); id != "" {
			c.sessions[id] = x.stream
		}
	}
	if e.Stream != nil && e.Stream.Name == "endpoint" {
		if u, err := c.recorded.Parse(string(e.Message)); err == nil {
			x.stream, x.events = c.start(), true
			c.endpoints[u.String()] = x.stream
		}
		return
	}
	m := parse(e.Message)
	if len(e.Message) == 0 || x.stream == 0 || !isOfProtocol(m) {
		return
	}
	if x.id != nil && m.isResponse() {
		c.inFlight[x.stream][string(x.id)] = false
		x.id = nil
	}
	c.add(e, x.stream, e.Message, false)
}

// closed adds the effect of a stream that the client closes: the session of HTTP+SSE ends, and a request of 2026-07-28
// is cancelled (basic/patterns/cancellation).
func (c *converter) closed(e *traffic.Entry) {
	x := c.exchanges[e.Exchange]
	switch {
	case x == nil:
	case x.events:
		c.add(e, x.stream, nil, true)
	case x.id != nil:
		c.inFlight[x.stream][string(x.id)] = false
		c.add(e, x.stream, []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+string(x.id)+
			`}}`), false)
		x.id = nil
	}
}
