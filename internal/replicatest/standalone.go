package replicatest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

const resources = 300

func uri(i int) string { return "note://" + strconv.Itoa(i) }

// CutStandalone changes 300 resources while the standalone stream of a session is cut 50 times after a random byte and
// resumed each time at one of three replicas. The test fails unless the events arrive in order, each once, and each
// change arrives. A change shortly before the stream moves may cause several events. open is the same as for CutCall.
func CutStandalone(t *testing.T, open func() store.Store) {
	c := &standalone{client: client{t: t, random: rand.New(rand.NewPCG(3, 4))}, seen: make(map[string]bool)}
	for range 3 {
		c.start(open())
	}
	for _, s := range c.servers {
		for i := range resources {
			server.AddStatic(s, mcp.Resource{URI: uri(i), Name: uri(i)}, "")
		}
	}
	c.handshake()
	for i := range resources {
		resp := c.send(i%len(c.urls), http.MethodPost,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, uri(i)))
		text, _ := io.ReadAll(resp.Body)
		if resp.Body.Close(); strings.Contains(string(text), "error") {
			t.Fatalf("%s", text)
		}
	}
	resp := c.send(0, http.MethodGet, "")
	for i := range cuts {
		c.change(resources * (i + 1) / (cuts + 1))
		c.read(resp, resources*i/(cuts+1)+1, c.random.IntN(c.size))
		resp.Body.Close()
		resp = c.send(c.random.IntN(len(c.urls)), http.MethodGet, "", "Last-Event-ID", c.last)
	}
	c.change(resources)
	c.read(resp, resources, 0)
	resp.Body.Close()
	if c.halves == 0 {
		t.Error("no cut was in the middle of an event")
	}
	t.Logf("%d changes, %d events, %d cuts, %d in the middle of an event", resources, c.received, cuts, c.halves)
}

// standalone is a client of the standalone stream.
type standalone struct {
	client
	changed int             // resources that were changed
	seen    map[string]bool // messages that have arrived
}

// change changes resources, each at a replica chosen at random, until n have changed.
func (c *standalone) change(n int) {
	for ; c.changed < n; c.changed++ {
		c.servers[c.random.IntN(len(c.servers))].ResourceUpdated(uri(c.changed))
	}
}

// read reads the stream until changes of n resources have arrived, and then more bytes.
func (c *standalone) read(resp *http.Response, n, more int) {
	c.t.Helper()
	end := -1
	err := c.scan(resp, c.event, func(read int) bool {
		if end < 0 && len(c.seen) >= n {
			end = read + more
		}
		return end < 0 || read < end
	})
	if err != nil {
		c.t.Fatalf("the stream ends after %d events: %v", c.received, err)
	}
}

func (c *standalone) event(text string) {
	c.t.Helper()
	data := c.parse(text)
	if data == "" {
		return
	}
	if c.received++; !strings.HasSuffix(c.last, "."+strconv.Itoa(c.received)) {
		c.t.Fatalf("event %d: %s", c.received, text)
	}
	if strings.Contains(data, `"notifications/resources/updated"`) { // otherwise the list of resources has changed
		c.seen[data] = true
	}
}
