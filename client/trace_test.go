package client_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
)

func TestTraceSeesEveryMessage(t *testing.T) {
	to, _ := target(legacyServer())
	var mu sync.Mutex
	var seen bytes.Buffer
	d := quiet()
	d.Name, d.Version = "tracer", "9"
	d.Trace = func(sent bool, message []byte) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&seen, "%v %s\n", sent, message)
	}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	c.Close()
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		`true {"jsonrpc":"2.0","id":1,"method":"server/discover",`, `false {"jsonrpc":"2.0","id":1,"error":`,
		`true {"jsonrpc":"2.0","id":2,"method":"initialize",`, `"clientInfo":{"name":"tracer","version":"9"}`, `false {"jsonrpc":"2.0","id":2,"result":`,
		`true {"jsonrpc":"2.0","method":"notifications/initialized"}`, `true {"jsonrpc":"2.0","id":3,"method":"ping"}`, `false {"jsonrpc":"2.0","id":3,"result":{}}`,
	} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("the trace lacks %s:\n%s", want, &seen)
		}
	}
}

// Rule S1: the client logs and skips output that is not a message.
func TestGarbageIsLoggedAndSkipped(t *testing.T) {
	var logged bytes.Buffer
	to, _ := target(&script{Greeting: []string{"Listening on stdio"}, Answers: answers("server/discover", discovered)})
	d := client.Dialer{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if !strings.Contains(logged.String(), "ignored") {
		t.Errorf("the log is %q, want it to report an ignored message", &logged)
	}
}
