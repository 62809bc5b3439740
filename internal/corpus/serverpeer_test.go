package corpus_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// peer is a raw client of a server, in one revision on one surface.
type peer struct {
	surface  string
	revision mcp.Revision
	// send writes a message and returns an error if the connection has ended.
	send func(message []byte) error
	// receive returns the next message from the server. It returns an error if no message arrives.
	receive func() (string, error)
	alive   int // number of liveness requests
}

// fragments returns the expressions of server cases that depend on the revision and the surface.
func (p *peer) fragments() map[string]string {
	f := map[string]string{"meta": `"_meta":{}`, "echo": "echo", "number": "number", "greet": "greet",
		"revision": string(p.revision)}
	if p.revision.Modern() {
		f["meta"] = wiretest.Meta
	}
	if p.surface == "gateway" {
		for _, name := range []string{"echo", "number", "greet"} {
			f[name] = "up__" + name
		}
	}
	return f
}

func (p *peer) tags() []string {
	era := "legacy"
	if p.revision.Modern() {
		era = "modern"
	}
	return []string{p.surface, string(p.revision), era}
}

// exchange sends a message followed by a liveness request. It returns when the liveness request and want other
// messages are answered. Notifications are dropped.
func (p *peer) exchange(message []byte, want int) (responses []string, err error) {
	if err := p.send(message); err != nil {
		return nil, err
	}
	p.alive++
	id := fmt.Sprintf(`"alive-%d"`, p.alive)
	method, params := "ping", ""
	if p.revision.Modern() {
		method, params = "server/discover", `,"params":{`+wiretest.Meta+`}`
	}
	if err := p.send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`)); err != nil {
		return nil, err
	}
	for alive := false; !alive || len(responses) < want; {
		text, err := p.receive()
		switch {
		case err != nil:
			return responses, fmt.Errorf("after the responses %.300q (alive: %v): %w", responses, alive, err)
		case strings.HasPrefix(text, `{"jsonrpc":"2.0","id":`+id+`,"result":`):
			alive = true
		case strings.HasPrefix(text, `{"jsonrpc":"2.0","method":`):
		default:
			responses = append(responses, text)
		}
	}
	return responses, nil
}

func handshake(r mcp.Revision) []byte { return fmt.Appendf(nil, wiretest.Initialize, r) }

// begin performs the handshake of a legacy revision. In 2026-07-28 it sends a first request, which tells a server on a
// byte stream the era: the form of an error without an id depends on it.
func (p *peer) begin(t *testing.T) *peer {
	t.Helper()
	first := handshake(p.revision)
	if p.revision.Modern() {
		first = []byte(`{"jsonrpc":"2.0","id":"hello","method":"server/discover","params":{` + wiretest.Meta + `}}`)
	}
	must.Do(t, p.send(first))
	must.Contains(t, must.Get(p.receive())(t), `"result"`, "the first request")
	if p.revision.Modern() {
		return p
	}
	must.Do(t, p.send([]byte(wiretest.Initialized)))
	return p
}

// newPeer connects a raw client to a server.
func newPeer(t *testing.T, surface string, r mcp.Revision, s *server.Server) *peer {
	t.Helper()
	p := &peer{surface: surface, revision: r}
	switch surface {
	case "memory", "gateway":
		p.overMemory(t, s)
	case "stream":
		p.overStream(t, s)
	case "http":
		p.overHTTP(t, s)
	case "pair":
		p.overPair(t, s)
	}
	return p.begin(t)
}

func (p *peer) overMemory(t *testing.T, s *server.Server) {
	near, far := transport.PipeLimits(64<<20, transport.DefaultServerMaxMessage)
	serveInMemory(t, s, far)
	p.send = func(message []byte) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return near.Write(ctx, message)
	}
	p.receive = func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		raw, err := near.Read(ctx)
		return string(raw), err
	}
}

// overStream writes each message in two parts.
func (p *peer) overStream(t *testing.T, s *server.Server) {
	near, far := net.Pipe()
	serveInMemory(t, s, transport.Stream(far, transport.StreamOptions{}))
	lines := make(chan string, 100)
	go readLines(near, lines)
	t.Cleanup(func() {
		near.Close()
		for range lines { // until readLines ends
		}
	})
	p.send = func(message []byte) error {
		_ = near.SetWriteDeadline(time.Now().Add(patience))
		if _, err := near.Write(message[:len(message)/2]); err != nil {
			return err
		}
		_, err := near.Write(append(message[len(message)/2:len(message):len(message)], '\n'))
		return err
	}
	p.receive = func() (string, error) { return nextOf(lines) }
}

func readLines(r io.Reader, lines chan<- string) {
	defer close(lines)
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		lines <- scan.Text()
	}
}

func nextOf(messages <-chan string) (string, error) {
	select {
	case message, ok := <-messages:
		if !ok {
			return "", io.EOF
		}
		return message, nil
	case <-time.After(patience):
		return "", context.DeadlineExceeded
	}
}

// overHTTP passes requests to the handler without a connection.
func (p *peer) overHTTP(t *testing.T, s *server.Server) {
	t.Cleanup(func() { shutDown(s) })
	session := ""
	var pending []string
	p.send = func(message []byte) error {
		r := wiretest.NewRequest(context.Background(), http.MethodPost, "http://localhost/", string(message),
			"MCP-Protocol-Version", string(p.revision), "Mcp-Session-Id", session)
		if p.revision.Modern() {
			mirror(r.Header, message)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if id := w.Header().Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		answers := bodyMessages(w.Body.String())
		pending = append(pending, answers...)
		return checkStatus(p.revision, w.Code, answers)
	}
	p.receive = func() (string, error) {
		if len(pending) == 0 {
			return "", io.EOF
		}
		message := pending[0]
		pending = pending[1:]
		return message, nil
	}
}

// mirror sets the headers that repeat the method and the name of a request, if message contains them.
func mirror(h http.Header, message []byte) {
	m, err := jsonrpc.Parse(bytes.Clone(message), jsonrpc.Limits{})
	if err != nil {
		h.Set("Mcp-Method", "tools/list")
		return
	}
	h.Set("Mcp-Method", m.Method)
	member := "name"
	switch m.Method {
	case mcp.MethodReadResource:
		member = "uri"
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		member = "taskId"
	}
	if raw, ok := m.Params.Get(member); ok {
		h.Set("Mcp-Name", jsonrpc.Unquote(raw))
	}
}

// bodyMessages returns the messages in the body of a response: the body itself, or the data of its events.
func bodyMessages(body string) []string {
	if body == "" {
		return nil
	}
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		return []string{strings.TrimSpace(body)}
	}
	var messages []string
	for _, event := range wiretest.ReadEvents(strings.NewReader(body)).Take(-1) {
		messages = append(messages, event.Data)
	}
	return messages
}

// checkStatus returns an error if the status of a response does not agree with its body: 202 without a message, an
// error status with an error whose request was not served, and 200 or, in 2026-07-28, the status of the error's code
// otherwise (2026-07-28, basic/transports/streamable-http).
func checkStatus(r mcp.Revision, status int, messages []string) error {
	if len(messages) == 0 {
		if status != http.StatusAccepted {
			return fmt.Errorf("status %d without a message", status)
		}
		return nil
	}
	last := messages[len(messages)-1]
	var m struct {
		ID    json.RawMessage
		Error *jsonrpc.Error
	}
	if err := json.Unmarshal([]byte(last), &m); err != nil { // a batch
		m.Error = nil
	}
	switch {
	case m.Error == nil && status == http.StatusOK:
	case m.Error != nil && status >= 400 && status < 500:
	case m.Error != nil && status == http.StatusOK && len(m.ID) > 0 && string(m.ID) != "null" &&
		!(r.Modern() && m.Error.Code == jsonrpc.CodeMethodNotFound):
	default:
		return fmt.Errorf("status %d with %.200s", status, last)
	}
	return nil
}

// overPair uses the event stream of 2024-11-05.
func (p *peer) overPair(t *testing.T, s *server.Server) {
	endpoint := httptest.NewServer(s)
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, endpoint.URL, nil)
	r.Header.Set("Accept", "text/event-stream")
	stream := must.Get(http.DefaultClient.Do(r))(t)
	events := make(chan string, 100)
	go readEvents(stream.Body, events)
	t.Cleanup(func() {
		cancel()
		stream.Body.Close()
		for range events {
		}
		shutDown(s)
		endpoint.CloseClientConnections()
		endpoint.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	address := must.Get(nextOf(events))(t)
	p.receive = func() (string, error) { return nextOf(events) }
	p.send = func(message []byte) error {
		resp, err := http.Post(endpoint.URL+address, "application/json", bytes.NewReader(message))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		switch {
		case resp.StatusCode == http.StatusAccepted && len(body) == 0:
		case resp.StatusCode >= 400 && resp.StatusCode < 500 && len(body) > 0:
			events <- strings.TrimSpace(string(body))
		default:
			return fmt.Errorf("status %d with %.200s", resp.StatusCode, body)
		}
		return nil
	}
}

func readEvents(r io.Reader, events chan<- string) {
	defer close(events)
	for e := wiretest.ReadEvents(r); ; {
		data := e.Data()
		if data == "" {
			return
		}
		events <- data
	}
}

func shutDown(s *server.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(ctx)
}
