package replicatest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

const (
	events = 1000 // notifications of the call
	cuts   = 50
)

// CutCall makes one call that sends 1,000 notifications. It cuts the event stream 50 times after a random byte, and
// resumes it each time at one of three replicas, chosen at random. open returns a connection to the store; each
// replica has its own. The test fails unless each event arrives once, in order.
func CutCall(t *testing.T, open func() store.Store) {
	c := &client{t: t, random: rand.New(rand.NewPCG(1, 2)), steps: make(chan int)}
	for range 3 {
		c.start(open())
	}
	c.handshake()
	const first = events / (cuts + 1)
	go func() { c.steps <- first }() // the response begins with the first event
	resp := c.send(0, http.MethodPost,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","_meta":{"progressToken":1}}}`)
	c.read(resp, c.random.IntN(first*c.size))
	for i := range cuts {
		sent, next := events*(i+1)/(cuts+1), events*(i+2)/(cuts+1)
		before := c.random.IntN(next - sent + 1) // sent while the client is away
		c.steps <- before
		resp = c.send(c.random.IntN(len(c.urls)), http.MethodGet, "", "Last-Event-ID", c.last)
		c.steps <- next - sent - before
		if i < cuts-1 {
			c.read(resp, c.random.IntN((next-sent)*c.size))
		}
	}
	close(c.steps)
	c.read(resp, -1)
	if c.received != events || !strings.Contains(c.response, `"id":1,"result"`) {
		t.Errorf("%d events and the response %q", c.received, c.response)
	}
	if c.halves == 0 {
		t.Error("no cut was in the middle of an event")
	}
}

// client is a client that loses its connections.
type client struct {
	t        *testing.T
	random   *rand.Rand
	servers  []*server.Server // replicas
	urls     []string         // URLs of the replicas
	steps    chan int         // notifications to send; closing it ends the call
	session  string
	last     string // ID of the last event
	received int
	response string
	size     int // bytes of the last event; later events are not shorter
	halves   int // cuts in the middle of an event
}

// start starts a replica.
func (c *client) start(shared store.Store) {
	s := &server.Server{Name: "s", Version: "1", Store: shared, Logger: slog.New(slog.DiscardHandler)}
	server.AddTool(s, mcp.Tool{Name: "count"}, func(ctx context.Context, _ struct{}) (string, error) {
		n := 0
		for step := range c.steps {
			for range step {
				n++
				if err := server.Progress(ctx, float64(n), events, ""); err != nil {
					return "", err
				}
			}
		}
		return "done", nil
	})
	h := httptest.NewServer(s)
	c.servers, c.urls = append(c.servers, s), append(c.urls, h.URL)
	c.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
		h.CloseClientConnections()
		h.Close()
	})
}

func (c *client) handshake() {
	c.t.Helper()
	resp := c.send(0, http.MethodPost,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
			`"clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`)
	resp.Body.Close()
	c.session = resp.Header.Get("Mcp-Session-Id")
	c.send(1, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).Body.Close()
	c.size = 100
}

func (c *client) send(replica int, method, body string, header ...string) *http.Response {
	c.t.Helper()
	if method == http.MethodGet {
		header = append(header, "Accept", "text/event-stream")
	}
	resp := wiretest.Do(c.t, method, c.urls[replica], body, append(header, "Mcp-Session-Id", c.session)...)
	if resp.StatusCode >= 300 {
		c.t.Fatalf("%s with %q at replica %d: %s %s", method, header, replica, resp.Status, wiretest.Text(c.t, resp))
	}
	return resp
}

// read reads n bytes of an event stream, and continues until it has seen an event ID. It closes the stream. A
// negative n means the whole stream.
func (c *client) read(resp *http.Response, n int) {
	c.t.Helper()
	defer resp.Body.Close()
	err := c.scan(resp, c.event, func(i int) bool { return n < 0 || i < n || c.last == "" })
	if err != nil && n >= 0 {
		c.t.Fatalf("the stream ends: %v", err)
	}
}

// scan reads an event stream byte by byte until the stream ends or more returns false for the number of bytes read. It
// passes events and comments to event.
func (c *client) scan(resp *http.Response, event func(text string), more func(read int) bool) error {
	c.t.Helper()
	var part []byte
	var one [1]byte
	for i := 0; more(i); i++ {
		if _, err := io.ReadFull(resp.Body, one[:]); err != nil {
			return err
		}
		if part = append(part, one[0]); bytes.HasSuffix(part, []byte("\n\n")) {
			event(string(part))
			part = part[:0]
		}
	}
	if len(part) > 0 {
		c.halves++
	}
	return nil
}

// parse returns the data of an event, and keeps the ID. A comment has no data.
func (c *client) parse(text string) (data string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			c.last = value
		case "data":
			data += value
		}
	}
	return data
}

// event processes an event or a comment.
func (c *client) event(text string) {
	c.t.Helper()
	data := c.parse(text)
	switch {
	case data == "":
	case c.response != "":
		c.t.Fatalf("after the response: %s", text)
	case !strings.Contains(data, `"method":"notifications/progress"`):
		c.response = data
	case !strings.Contains(data, `"progress":`+strconv.Itoa(c.received+1)+`,`):
		c.t.Fatalf("after event %d: %s", c.received, text)
	default:
		c.received++
		c.size = len(text)
	}
}
