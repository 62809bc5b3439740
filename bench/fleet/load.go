package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// kind is a kind of call.
type kind struct {
	name    string
	session bool
	header  map[string]string
	body    string
}

const anyResponse = "application/json, text/event-stream"

var kinds = []kind{
	{"2026-07-28", false, map[string]string{"Accept": anyResponse, "MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": "greet"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"fleet","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`},
	{"session, JSON", true, map[string]string{"Accept": anyResponse}, sessionCall},
	{"session, event stream", true, map[string]string{"Accept": "text/event-stream"}, sessionCall},
}

const (
	sessionCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}`
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"clientInfo":{"name":"fleet","version":"1"},"capabilities":{}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// load is a number of clients. Every client sends each request to the next server. If the servers share their state, it
// has one session, and otherwise one at each server.
type load struct {
	urls     []string
	shared   bool
	client   *http.Client
	next     atomic.Int64
	sessions [][]string // of each client, by server
}

func newLoad(urls []string, shared bool, clients int) *load {
	return &load{
		urls: urls, shared: shared, sessions: make([][]string, clients),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: startTimeout},
	}
}

func (l *load) close() { l.client.CloseIdleConnections() }

// prepare begins the sessions and makes each client call each server once.
func (l *load) prepare(k kind) error {
	for client := range l.sessions {
		sessions := make([]string, len(l.urls))
		l.sessions[client] = sessions
		for at, url := range l.urls {
			switch {
			case k.session && l.shared && at > 0:
				sessions[at] = sessions[0]
			case k.session:
				var err error
				if sessions[at], err = l.begin(url); err != nil {
					return err
				}
			}
			if _, err := l.send(url, sessions[at], k.header, k.body); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin begins a session and returns its id.
func (l *load) begin(url string) (session string, err error) {
	accept := map[string]string{"Accept": anyResponse}
	if session, err = l.send(url, "", accept, initialize); err == nil {
		_, err = l.send(url, session, accept, initialized)
	}
	return session, err
}

// run makes calls for a time, and returns their number, which is at least 1.
func (l *load) run(k kind, duration time.Duration) (calls int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	var working sync.WaitGroup
	var made atomic.Int64
	var failed atomic.Pointer[error]
	for _, sessions := range l.sessions {
		working.Go(func() {
			for ctx.Err() == nil {
				at := int(l.next.Add(1)) % len(l.urls)
				if _, err := l.send(l.urls[at], sessions[at], k.header, k.body); err != nil {
					failed.Store(&err)
					return
				}
				made.Add(1)
			}
		})
	}
	working.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	if made.Load() == 0 {
		return 0, fmt.Errorf("no call ended within %v: -duration must be longer", duration)
	}
	return made.Load(), nil
}

// send sends a message. It returns the id of a new session.
func (l *load) send(url, session string, header map[string]string, body string) (newSession string, err error) {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode/100 != 2 || bytes.Contains(text, []byte(`"error":`)) {
		return "", fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return resp.Header.Get("Mcp-Session-Id"), nil
}
