package corpus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// sizes contains the minimum number of cases for each category.
var sizes = map[string]int{
	"client/events":     55,
	"client/messages":   160,
	"http/headers":      65,
	"http/origins":      70,
	"http/requests":     110,
	"http/sessions":     65,
	"http/versions":     60,
	"rules/addresses":   80,
	"rules/callbacks":   80,
	"rules/challenges":  45,
	"rules/resources":   115,
	"rules/schemas":     75,
	"rules/sealed":      50,
	"rules/servers":     120,
	"rules/templates":   60,
	"rules/text":        40,
	"rules/tokens":      300,
	"rules/urls":        150,
	"server/batches":    30,
	"server/bombs":      50,
	"server/duplicates": 70,
	"server/envelope":   130,
	"server/ids":        70,
	"server/json":       160,
	"server/names":      80,
	"server/utf8":       60,
	"server/values":     40,
}

func TestTheCorpusIsComplete(t *testing.T) {
	found := make(map[string]bool)
	total := 0
	for _, name := range corpus.Files(t) {
		n := len(corpus.Cases(t, name))
		found[name] = true
		total += n
		want, ok := sizes[name]
		must.CheckThat(t, ok && n >= want, "%s has %d cases, want at least %d (in the table: %v)", name, n, want, ok)
	}
	for name := range sizes {
		must.CheckThat(t, found[name], "%s has no file", name)
	}
	t.Logf("%d cases", total)
}

func TestCasesOfAFile(t *testing.T) {
	for _, c := range corpus.Cases(t, "server/utf8") {
		if c.Name == "invalid UTF-8 in a value: <<hex C0 AF>>" {
			text := c.Bytes(t, map[string]string{"echo": "e", "meta": `"m":1`})
			must.CheckContains(t, string(text), "\"e\",\"m\":1,\"arguments\":{\"text\":\"a\xc0\xafb\"}", text)
			must.CheckEqual(t, c.Want("legacy", "stream"), "-32700")
			return
		}
	}
	t.Error("the case is missing")
}

// patience is how long a test waits for a message that should arrive at once.
const patience = time.Minute

var quiet = slog.New(slog.DiscardHandler)

// newServer returns the server that receives the cases. It offers one entry of each kind.
func newServer() *server.Server {
	s := &server.Server{
		Name: "corpus", Version: "1", Logger: quiet,
		Limits: server.Limits{CallsPerSecond: 1e9, SessionsPerAddress: 5000},
	}
	server.AddTool(s, mcp.Tool{Name: "echo"}, func(_ context.Context, in struct {
		Text string `json:"text,omitempty"`
	}) (string, error) {
		return in.Text, nil
	})
	server.AddTool(s, mcp.Tool{Name: "number"}, func(_ context.Context, in struct {
		N int64   `json:"n,omitempty"`
		F float64 `json:"f,omitempty"`
	}) (string, error) {
		return "", nil
	})
	server.AddPrompt(s, mcp.Prompt{Name: "greet"}, func(_ context.Context, in struct {
		Name string `json:"name,omitempty"`
	}) (string, error) {
		return in.Name, nil
	}, server.CompleteFrom("name", "Ada"))
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "page://{name}", Name: "page"},
		func(_ context.Context, in struct {
			Name string `json:"name"`
		}) (string, error) {
			return in.Name, nil
		})
	return s
}

// serveInMemory serves one end of a pipe until the test ends.
func serveInMemory(t *testing.T, s *server.Server, conn transport.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeConn(ctx, conn)
	}()
	t.Cleanup(func() {
		cancel()
		conn.Close()
		<-done
	})
}

// newGateway returns the server of a gateway to target.
func newGateway(t *testing.T, target client.Target) *server.Server {
	t.Helper()
	s := &server.Server{Name: "gateway", Version: "1", Limits: server.Limits{CallsPerSecond: 1e9}}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: target}}}, s)
	return s
}

// inMemory returns a target that is a server in this process.
func inMemory(t *testing.T, s *server.Server) client.Target {
	near, far := transport.Pipe()
	serveInMemory(t, s, far)
	return client.Conn(near)
}

// call calls the tool of the hostile server and returns the text of the result.
type call func(ctx context.Context) (string, error)

// Each message of a hostile server has the expected outcome, and the client's next call succeeds.
func TestClientsSurviveBadMessages(t *testing.T) {
	for _, r := range mcp.Revisions() {
		surfaces := []string{"memory", "stream", "http", "json", "gateway"}
		if r == mcp.V20241105 {
			surfaces = []string{"memory", "stream", "pair", "gateway"}
		}
		for _, surface := range surfaces {
			t.Run(surface+"/"+string(r), func(t *testing.T) {
				t.Parallel()
				h := &hostile{revision: r}
				connect := func() call { return connectTo(t, h, surface) }
				f, failures := connect(), 0
				for _, name := range corpus.Files(t) {
					if !strings.HasPrefix(name, "client/") {
						continue
					}
					for _, c := range corpus.Cases(t, name) {
						if err := h.try(t, surface, c, f, name == "client/events"); err != nil {
							t.Errorf("%s: %s: %v", c.Place, c.Name, err)
							f = reconnect(t, &failures, connect)
						}
					}
				}
			})
		}
	}
}

// connectTo connects a client to h, directly or through a gateway.
func connectTo(t *testing.T, h *hostile, surface string) call {
	t.Helper()
	d := &client.Dialer{Revision: h.revision, Logger: quiet}
	target := h.target(t, surface)
	if surface == "gateway" {
		s := newGateway(t, target)
		tool := "up__a"
		c := must.Get(d.Dial(t.Context(), inMemory(t, s)))(t)
		t.Cleanup(func() { c.Close() })
		return func(ctx context.Context) (string, error) { return client.CallTool[string](ctx, c, tool, nil) }
	}
	c := must.Get(d.Dial(t.Context(), target))(t)
	t.Cleanup(func() { c.Close() })
	return func(ctx context.Context) (string, error) { return client.CallTool[string](ctx, c, "a", nil) }
}

// try makes h attack the next call, compares the outcome, and calls again.
func (h *hostile) try(t *testing.T, surface string, c corpus.Case, f call, raw bool) error {
	era := "legacy"
	if h.revision.Modern() {
		era = "modern"
	}
	want := c.Want(surface, era, string(h.revision))
	if want == "" {
		return nil
	}
	const id = "\x00id\x00" // a placeholder for the ID of the call
	input := c.Bytes(t, map[string]string{"id": id, "result": h.result(caseText)})
	h.next.Store(&attack{raw: raw, bytes: func(of string) []byte {
		return bytes.ReplaceAll(input, []byte(id), []byte(of))
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := f(ctx)
	got := "error"
	switch {
	case ctx.Err() != nil:
		got = "no response"
	case err != nil:
	case text == "":
		got = "empty"
	case text == caseText:
		got = "result"
	case text == goodText:
		got = "ignored"
	default:
		got = fmt.Sprintf("text %.100q", text)
	}
	if got != want {
		return fmt.Errorf("%s (%v), want %s", got, err, want)
	}
	if text, err := f(ctx); err != nil || text != goodText {
		return fmt.Errorf("the next call returns %q, %v", text, err)
	}
	return nil
}

// place is one revision on one surface.
type place struct {
	surface  string
	revision mcp.Revision
}

// places returns every surface in every revision that has it. A gateway serves clients of every revision.
func places() []place {
	var all []place
	for _, r := range mcp.Revisions() {
		web := "http"
		if r == mcp.V20241105 {
			web = "pair"
		}
		for _, surface := range []string{"memory", "stream", web, "gateway"} {
			all = append(all, place{surface, r})
		}
	}
	return all
}

// onEveryPlace runs f in parallel for each place, with a function that connects a peer.
func onEveryPlace(t *testing.T, f func(t *testing.T, pl place, connect func() *peer)) {
	for _, pl := range places() {
		t.Run(pl.surface+"/"+string(pl.revision), func(t *testing.T) {
			t.Parallel()
			s := newServer()
			if pl.surface == "gateway" {
				s = newGateway(t, inMemory(t, s))
			}
			f(t, pl, func() *peer { return newPeer(t, pl.surface, pl.revision, s) })
		})
	}
}

// Each message of the corpus has the expected outcome, and the server still serves the next request.
func TestServersAnswerBadMessages(t *testing.T) {
	onEveryPlace(t, func(t *testing.T, _ place, connect func() *peer) {
		p, failures := connect(), 0
		for _, name := range corpus.Files(t) {
			if !strings.HasPrefix(name, "server/") {
				continue
			}
			for _, c := range corpus.Cases(t, name) {
				if err := p.try(t, c); err != nil {
					t.Errorf("%s: %s: %v", c.Place, c.Name, err)
					p = reconnect(t, &failures, connect)
				}
			}
		}
	})
}

// reconnect returns a new peer after a failed case, so that no further case fails because of it. After many failures,
// which may each have waited for a message, it ends the test.
func reconnect[P any](t *testing.T, failures *int, connect func() P) P {
	t.Helper()
	if *failures++; *failures == 10 {
		t.Fatal("too many failures: the other cases are not tried")
	}
	return connect()
}

// try sends a case and compares the responses with the outcome.
func (p *peer) try(t *testing.T, c corpus.Case) error {
	want := c.Want(p.tags()...)
	message := c.Bytes(t, p.fragments())
	if want == "" || !p.carries(message) {
		return nil
	}
	expected := strings.Split(want, "; ")
	if want == "none" {
		expected = nil
	}
	responses, err := p.exchange(message, len(expected))
	if err != nil {
		return fmt.Errorf("%w, want %s", err, want)
	}
	got := make([]string, len(responses))
	for i, response := range responses {
		if got[i], err = p.describe(response); err != nil {
			return fmt.Errorf("%w: %.300s", err, response)
		}
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		return fmt.Errorf("responses are %.600q, want %q", responses, expected)
	}
	return nil
}

// carries reports whether the surface can carry a message: on a byte stream, each line is a message, and in
// memory, each message is a single line.
func (p *peer) carries(message []byte) bool {
	switch p.surface {
	case "stream":
		return !bytes.ContainsAny(message, "\n")
	case "memory", "gateway":
		return len(message) > 0 && !bytes.ContainsAny(message, "\r\n")
	}
	return true
}

// describe returns a response in the form of an outcome.
func (p *peer) describe(response string) (string, error) {
	if strings.HasPrefix(response, "[") {
		var batch []json.RawMessage
		if err := json.Unmarshal([]byte(response), &batch); err != nil {
			return "", err
		}
		parts := make([]string, len(batch))
		for i, one := range batch {
			part, err := p.describe(string(one))
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	}
	m, err := jsonrpc.Parse([]byte(response), jsonrpc.Limits{})
	if err != nil {
		return "", err
	}
	if m.Kind != jsonrpc.Response {
		return "", errors.New("message must be a response")
	}
	text := "result"
	if m.Err != nil {
		text = fmt.Sprint(m.Err.Code)
		if err := spec.ValidateMessage(p.revision, []byte(response), ""); err != nil {
			return "", err
		}
	} else if bytes.Contains(m.Raw, []byte(`"isError":true`)) {
		text = "tool error"
	}
	if id, ok := jsonrpc.Get([]byte(response), "id"); ok && !m.ID.IsZero() { // the ID as the server wrote it
		text += " " + string(id)
	}
	return text, nil
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
