package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// FuzzBatch checks that a batch of 2025-03-26 has one response for each request and each invalid message, and that the
// connection serves the next request. A batch that the revision forbids as a whole has a single error.
func FuzzBatch(f *testing.F) {
	s := httpServer()
	s.Limits.CallsPerSecond = -1
	l := connectLine(f, s)
	l.Send(fmt.Sprintf(wiretest.Initialize, mcp.V20250326))
	l.Receive()
	l.Send(wiretest.Initialized)
	f.Add([]byte{0, 1, 2, 3, 4, 5}, "")
	f.Add([]byte{}, "")
	f.Add([]byte{0, 6, 0}, "")
	f.Add([]byte{3, 3}, "")
	f.Add([]byte{0, 7}, "")
	f.Add([]byte{0}, `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`)
	f.Add([]byte{1}, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`)
	f.Add([]byte{1}, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	f.Add([]byte{0}, `{"jsonrpc":"2.0","id":9,"method":"initialize"}`)
	f.Add([]byte(strings.Repeat("\x00", 101)), "")
	f.Fuzz(func(t *testing.T, kinds []byte, raw string) {
		var elements []string
		for i, kind := range kinds {
			elements = append(elements, [...]string{
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":{"name":"echo","arguments":{"text":"%d"}}}`, i, i),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"unknown"}`, i),
				`{"jsonrpc":"2.0","method":"notifications/unknown"}`,
				`{"jsonrpc":"2.0","id":77,"result":{}}`,
				`7`,
				`{"jsonrpc":"2.0","id":0,"method":"ping"}`,
				`[]`,
			}[kind%8])
		}
		if raw != "" {
			elements = append(elements, raw)
		}
		batch := "[" + strings.Join(elements, ",") + "]"
		if jsonrpc.Check([]byte(batch), jsonrpc.Limits{}) != nil || strings.ContainsAny(batch, "\r\n") || strings.Contains(batch, "cancelled") {
			return // other targets test invalid JSON and lines; a cancelled request has no response
		}
		var parts []json.RawMessage // raw may have several elements
		if err := json.Unmarshal([]byte(batch), &parts); err != nil {
			t.Fatal(err)
		}
		want := make(map[jsonrpc.ID]int) // responses by id; the zero ID is null
		total, whole := 0, len(parts) == 0 || len(parts) > 100
		for _, part := range parts {
			m, _ := jsonrpc.Parse(part, jsonrpc.Limits{})
			switch m.Kind {
			case jsonrpc.Request:
				whole = whole || want[m.ID] > 0 || m.Method == mcp.MethodInitialize || revision.Classify(revision.Input{Message: &m, Agreed: mcp.V20250326}).Era == revision.Modern
				fallthrough
			case jsonrpc.Invalid:
				want[m.ID]++
				total++
			}
		}
		l := &line{&wiretest.Peer{T: t, Conn: l.Conn}}
		l.Send(batch)
		if whole || total > 0 {
			response := l.Receive()
			if whole {
				if m, err := jsonrpc.Parse([]byte(response), jsonrpc.Limits{}); err != nil || m.Err == nil || !m.ID.IsZero() {
					t.Fatalf("%s is answered with %s", batch, response)
				}
			} else {
				checkResponses(t, batch, response, want, total)
			}
		}
		l.Send(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
		if response := l.Receive(); response != `{"jsonrpc":"2.0","id":"after","result":{}}` {
			t.Fatalf("%s is answered with %s", batch, response)
		}
	})
}

// checkResponses checks the responses of a batch: want has their number by id.
func checkResponses(t *testing.T, batch, response string, want map[jsonrpc.ID]int, total int) {
	t.Helper()
	parts, err := jsonrpc.SplitBatch([]byte(response), jsonrpc.Limits{})
	if err != nil || len(parts) != total {
		t.Fatalf("%s has %d requests and is answered with %s, %v", batch, total, response, err)
	}
	for _, part := range parts {
		m, err := jsonrpc.Parse(part, jsonrpc.Limits{})
		if want[m.ID]--; err != nil || m.Kind != jsonrpc.Response || want[m.ID] < 0 {
			t.Fatalf("%s is answered with %s: %v", batch, response, err)
		}
	}
}
