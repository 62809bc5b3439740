package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/check/jsondiff"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Change is a place of a message that differs. Recorded or Replayed is empty if the place is missing there.
type Change struct {
	Path     string `json:"path"` // a JSON Pointer (RFC 6901)
	Recorded string `json:"recorded,omitempty"`
	Replayed string `json:"replayed,omitempty"`
}

// Paths selects places of messages: JSON Pointers, in which * means every member or element. A path also selects
// what is below it.
type Paths [][]string

// ParsePaths parses paths such as /result/structuredContent/time and /result/content/*/text.
func ParsePaths(texts []string) (Paths, error) {
	var paths Paths
	for _, text := range texts {
		p := jsontext.Pointer(text)
		if text == "" || !p.IsValid() {
			return nil, fmt.Errorf("invalid path %q; write a JSON Pointer such as /result/structuredContent/time", text)
		}
		paths = append(paths, slices.Collect(p.Tokens()))
	}
	return paths, nil
}

// match reports whether the paths select a place.
func (p Paths) match(place []string) bool {
	return slices.ContainsFunc(p, func(path []string) bool {
		if len(path) != len(place) {
			return false
		}
		for i, name := range path {
			if name != "*" && name != place[i] {
				return false
			}
		}
		return true
	})
}

// chosenByServer are the members whose values only the server understands.
var chosenByServer = map[string]bool{"nextCursor": true, "requestState": true, "taskId": true, "elicitationId": true}

// compare returns the differences of two messages. It calls learn for each value that the server chooses.
func compare(recorded, replayed jsontext.Value, ignore Paths, learn func(recorded, replayed string)) []Change {
	c := jsondiff.Comparison{
		Ignore: ignore.match,
		Match: func(place []string, recorded, replayed string) bool {
			chosen := len(place) > 0 && chosenByServer[place[len(place)-1]]
			if chosen {
				learn(recorded, replayed)
			}
			return chosen
		},
	}
	var changes []Change
	for _, change := range c.Compare(recorded, replayed) {
		changes = append(changes, Change{string(change.Path), string(change.A), string(change.B)})
	}
	return changes
}

func decode(v jsontext.Value, into any) error {
	return jsonv2.Unmarshal(v, into, jsontext.AllowDuplicateNames(true))
}

// message is what a replay uses of a message of JSON-RPC.
type message struct {
	raw     []byte
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`
	Params  params         `json:"-"`
	isBatch bool
	invalid bool
}

type params struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
}

func parse(raw []byte) *message {
	m := &message{raw: raw}
	v := jsontext.Value(raw)
	if !v.IsValid(jsontext.AllowDuplicateNames(true)) {
		m.invalid = true
		return m
	}
	if v.Kind() == '[' {
		m.isBatch = true
		return m
	}
	var outer struct {
		Params jsontext.Value `json:"params"`
	}
	// members of other types remain empty
	_ = errors.Join(decode(raw, m), decode(raw, &outer), decode(outer.Params, &m.Params))
	m.raw = raw
	return m
}

func (m *message) isResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// isPing reports whether a message is a ping, which depends on time only.
func (m *message) isPing() bool { return m.Method == "ping" }

func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

// isChange reports whether a message is a notification of a change. A server may merge equal ones that it has not sent
// yet.
func (m *message) isChange() bool {
	switch m.Method {
	case mcp.NotificationToolListChanged, mcp.NotificationPromptListChanged, mcp.NotificationResourceListChanged,
		mcp.NotificationResourceUpdated:
		return true
	}
	return false
}

// String describes a message, such as "tools/call greet".
func (m *message) String() string {
	switch {
	case m.invalid:
		return "invalid message"
	case m.isBatch:
		return "batch"
	case m.Method == "":
		return "response"
	case m.Params.Name != "":
		return m.Method + " " + m.Params.Name
	case m.Params.URI != "":
		return m.Method + " " + m.Params.URI
	}
	return m.Method
}

// matches reports whether a message of the server can be the recorded one.
func (m *message) matches(recorded *message) bool {
	switch {
	case recorded.invalid || m.invalid || recorded.isBatch || m.isBatch:
		return recorded.invalid == m.invalid && recorded.isBatch == m.isBatch
	case recorded.isResponse():
		return m.isResponse() && equalID(m.ID, recorded.ID)
	}
	return m.Method == recorded.Method && (m.ID == nil) == (recorded.ID == nil)
}

// equalID reports whether two ids are equal. An absent id equals null.
func equalID(a, b jsontext.Value) bool {
	if a == nil {
		a = jsontext.Value("null")
	}
	if b == nil {
		b = jsontext.Value("null")
	}
	return jsondiff.Equal(a, b)
}

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
	if p.recorded, err = url.Parse(recorded); err != nil || p.recorded.Host == "" {
		return nil, fmt.Errorf("the recording must have the URL of its server in the first line, not %q", recorded)
	}
	if p.target, err = url.Parse(target); err != nil {
		return nil, fmt.Errorf("invalid URL of the server: %w", err)
	}
	p.client.Transport = client.NewTransport()
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p, nil
}

// send implements peer. It skips requests that are not to the endpoint of the server, such as those to an
// authorization server.
func (p *httpPeer) send(e *recording.Entry) (bool, error) {
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
	p.r.trace(true, body)
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
			p.r.trace(false, got.message.raw)
		}
		select {
		case p.r.received <- got:
		case <-ctx.Done():
		}
	}
	defer pass(received{end: true})
	observer := &recording.Transport{Base: p.client.Transport, Report: func(e recording.Event) {
		message := append([]byte(nil), e.Message...)
		switch {
		case e.From == recording.Client:
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
func (p *httpPeer) endStream(e *recording.Entry) {
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

// stdioPeer is a server that is a program, which starts with the first message.
type stdioPeer struct {
	r       *replayer
	ctx     context.Context
	cancel  context.CancelFunc
	command transport.CommandOptions
	conn    *transport.CommandConn // nil before the first message
	reading sync.WaitGroup
}

func newStdioPeer(ctx context.Context, r *replayer, command transport.CommandOptions) peer {
	p := &stdioPeer{r: r, command: command}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// read passes on the messages of the program until it ends.
func (p *stdioPeer) read() {
	for {
		raw, err := p.conn.Read(p.ctx)
		got := received{end: err != nil}
		if err == nil {
			raw = append([]byte(nil), raw...)
			got.message = parse(raw)
			p.r.trace(false, raw)
		}
		select {
		case p.r.received <- got:
		case <-p.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// send implements peer.
func (p *stdioPeer) send(e *recording.Entry) (bool, error) {
	if p.conn == nil {
		var err error
		if p.conn, err = transport.StartCommand(p.command); err != nil {
			return false, err
		}
		p.reading.Go(p.read)
	}
	raw := p.r.outgoing(e)
	p.r.trace(true, raw)
	err := p.conn.Write(p.ctx, raw)
	if exit := p.conn.Err(); err != nil && exit != nil && !errors.Is(exit, io.EOF) {
		err = exit
	}
	return err == nil, err
}

// endStream implements peer. The end of the input of the server is the end of the replay.
func (p *stdioPeer) endStream(*recording.Entry) {}

func (p *stdioPeer) close() {
	p.cancel()
	if p.conn != nil {
		_ = p.conn.Close() // how the server exits is no difference
	}
	p.reading.Wait()
}
