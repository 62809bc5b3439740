package corpus_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Each HTTP request of the corpus has its outcome, and the server still serves. A case changes a good request of each era;
// README.md describes how.
func TestServersAnswerBadHTTPRequests(t *testing.T) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, r)
			for _, name := range corpus.Files(t) {
				if !strings.HasPrefix(name, "http/") {
					continue
				}
				for _, c := range corpus.Cases(t, name) {
					want := c.Want(w.tags()...)
					if want == "" {
						continue
					}
					if got, err := w.send(string(c.Bytes(t, w.fragments()))); err != nil || got != want {
						t.Errorf("%s: %s: %s (%v), want %s", c.Place, c.Name, got, err, want)
					}
					if got, err := w.send(""); err != nil || got != w.good {
						t.Errorf("%s: %s: the next request: %s, %v", c.Place, c.Name, got, err)
					}
				}
			}
		})
	}
}

// web is a server over HTTP with a good request of one revision.
type web struct {
	revision mcp.Revision
	address  string
	session  string // the session of Streamable HTTP
	path     string
	header   []string // lines of the good request
	body     string
	good     string // its outcome
}

func newWeb(t *testing.T, r mcp.Revision) *web {
	t.Helper()
	s := newServer()
	endpoint := httptest.NewUnstartedServer(s)
	endpoint.Config.ErrorLog = nil
	endpoint.Start()
	t.Cleanup(func() {
		shutDown(s)
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	w := &web{
		revision: r, address: endpoint.Listener.Addr().String(), path: "/", good: "200",
		header: []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"},
		body:   `{"jsonrpc":"2.0","id":"c","method":"tools/list"}`,
	}
	w.header = append(w.header, "Host: "+w.address)
	switch {
	case r.Modern():
		w.header = append(w.header, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list")
		w.body = `{"jsonrpc":"2.0","id":"c","method":"tools/list","params":{` + wiretest.Meta + `}}`
	case r == mcp.V20241105:
		w.openPair(t)
		w.good = "202"
	default:
		w.openSession(t)
	}
	return w
}

func (w *web) openSession(t *testing.T) {
	t.Helper()
	resp := wiretest.Do(t, http.MethodPost, "http://"+w.address, string(handshake(w.revision)), "Connection", "close")
	resp.Body.Close()
	w.session = resp.Header.Get("Mcp-Session-Id")
	w.header = append(w.header, "MCP-Protocol-Version: "+string(w.revision), "Mcp-Session-Id: "+w.session)
	if got, err := w.send("\n" + wiretest.Initialized); err != nil || got != "202" {
		t.Fatalf("%s, %v", got, err)
	}
}

// openPair opens an event stream, which the server closes at the end of the test.
func (w *web) openPair(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan string, 1000)
	done := make(chan struct{})
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+w.address+"\r\nAccept: text/event-stream\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		readEvents(resp.Body, events)
	}()
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
		<-done
	})
	if w.path, err = nextOf(events); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{string(handshake(w.revision)), wiretest.Initialized} {
		if got, err := w.send("\n" + message); err != nil || got != "202" {
			t.Fatalf("%s, %v", got, err)
		}
	}
	go func() { // the responses are not a part of the outcomes
		for range events {
		}
	}()
}

func (w *web) tags() []string {
	switch {
	case w.revision.Modern():
		return []string{"modern", string(w.revision)}
	case w.revision == mcp.V20241105:
		return []string{"legacy", "pair", string(w.revision)}
	}
	return []string{"legacy", "http", string(w.revision)}
}

func (w *web) fragments() map[string]string {
	return map[string]string{"host": w.address, "session": w.session, "path": w.path, "meta": wiretest.Meta}
}

// send sends the good request with the changes of a case on a connection of its own, and returns the outcome: the status and
// the code of the error, or "closed".
func (w *web) send(changes string) (string, error) {
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	request := w.request(changes)
	go func() { _, _ = io.WriteString(conn, request) }() // the server may answer before it has read everything
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err != nil && strings.Contains(err.Error(), "reset by peer"):
		return "closed", nil
	case err != nil:
		return "", err
	}
	outcome := fmt.Sprint(resp.StatusCode)
	if resp.Header.Get("Content-Type") != "application/json" {
		return outcome, nil // the body may be an endless stream
	}
	body, _ := io.ReadAll(resp.Body)
	if m, err := jsonrpc.Parse(body, jsonrpc.Limits{}); err == nil && m.Err != nil {
		outcome += fmt.Sprint(" ", m.Err.Code)
	}
	return outcome, nil
}

// request returns the good request with changes: an optional request line, header lines, and after an empty line the body.
// A header line replaces those of that name, "+" in front adds one, and "-" removes the header.
func (w *web) request(changes string) string {
	head, body, hasBody := strings.Cut(changes, "\n\n")
	if strings.HasPrefix(changes, "\n") {
		head, body, hasBody = "", changes[1:], true
	}
	if !hasBody {
		body = w.body
	}
	first := "POST " + w.path + " HTTP/1.1"
	header := slices.Clone(w.header)
	for line := range strings.SplitSeq(head, "\n") {
		name, _, _ := strings.Cut(strings.TrimLeft(line, "+-"), ":")
		same := func(other string) bool { return strings.HasPrefix(strings.ToLower(other), strings.ToLower(name)+":") }
		switch {
		case line == "":
		case strings.Contains(line, " HTTP/"):
			first = line
		case line[0] == '+':
			header = append(header, line[1:])
		case line[0] == '-':
			header = slices.DeleteFunc(header, same)
		default:
			header = append(slices.DeleteFunc(header, same), line)
		}
	}
	framed := slices.ContainsFunc(header, func(line string) bool {
		lower := strings.ToLower(line)
		return strings.HasPrefix(lower, "content-length") || strings.HasPrefix(lower, "transfer-encoding")
	})
	if !framed && (hasBody || strings.HasPrefix(first, "POST")) {
		header = append(header, fmt.Sprintf("Content-Length: %d", len(body)))
	} else if !framed {
		body = ""
	}
	return first + "\r\n" + strings.Join(header, "\r\n") + "\r\n\r\n" + body
}
