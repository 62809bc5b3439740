package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
)

// Rule T5: the first event names the endpoint; responses to messages posted there come on the stream.
func TestPairBeginsWithItsEndpoint(t *testing.T) {
	e := newEndpoint(t)
	p := e.pair("/")
	must.CheckThat(t, strings.HasPrefix(p.endpoint, "/?sessionId=") && len(p.endpoint) >= len("/?sessionId=")+22,
		"endpoint %q", p.endpoint)
	post := func(body string, status int) {
		t.Helper()
		a := e.do("POST", p.endpoint, body)
		must.CheckThat(t, a.status == status && (status != 202 || a.body == ""), "%s: %s", body, a)
	}
	post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 202)
	if data := p.Data(); !strings.Contains(data, `"code":-32600`) || !strings.Contains(data, `"id":1`) {
		t.Errorf("before the handshake: %s", data)
	}
	post(fmt.Sprintf(wiretest.Initialize, "2024-11-05"), 202)
	must.CheckContains(t, p.Data(), `"protocolVersion":"2024-11-05"`)
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
	post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"to":2},`+
		`"_meta":{"progressToken":"p"}}}`, 202)
	for _, want := range []string{`"progress":1`, `"progress":2`, `"text":"done"`} {
		must.CheckContains(t, p.Data(), want)
	}
	post(`{"jsonrpc":"2.0","id":3,"method":"ping"`, 400)
	post(`[{"jsonrpc":"2.0","id":3,"method":"ping"}]`, 400)
	post(`{"jsonrpc":"2.0","id":99,"result":{}}`, 202)
	a := e.do("POST", "/?sessionId=AAAAAAAAAAAAAAAAAAAAAA",
		`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	must.CheckEqual(t, a.status, 404, "another session's", a)
	post(`{"jsonrpc":"2.0","id":4,"method":"ping"}`, 202)
	must.CheckEqual(t, p.Data(), `{"jsonrpc":"2.0","id":4,"result":{}}`)
}

// The end of the stream ends the session and its requests in flight.
// Rule T5.
func TestPairEndsWithItsStream(t *testing.T) {
	e := newEndpoint(t)
	p := e.ready()
	e.do("POST", p.endpoint, fmt.Sprintf(waitCall, 2))
	w := <-e.waiting
	p.close()
	<-w.ctx.Done()
	<-w.ended
	eventually(t, func() bool { return e.do("POST", p.endpoint, pingBody).status == 404 })
}

// A stream without a handshake ends.
func TestAPairWithoutAHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		begun := time.Now()
		rec := inBubble(s, "GET", "", "Accept", "text/event-stream")
		if took := time.Since(begun); took != 30*time.Second || !strings.Contains(rec.Body.String(), "endpoint") {
			t.Errorf("after %v: %s", took, rec.Body)
		}
	})
}

// A GET that names no session opens the HTTP+SSE pair, also if its client sends the version
// header with its requests.
func TestAGETWithoutASessionOpensThePairWithAnyLegacyVersion(t *testing.T) {
	e := newEndpoint(t)
	for _, r := range mcp.Revisions() {
		if r.Modern() {
			continue
		}
		version := []string{"MCP-Protocol-Version", string(r)}
		stream := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "",
			append(version, "Accept", "text/event-stream")...))
		first, _ := stream.Next()
		if first.Name != "endpoint" {
			t.Errorf("%s: the stream begins with %+v", r, first)
			continue
		}
		a := e.do("POST", first.Data, fmt.Sprintf(wiretest.Initialize, r), version...)
		must.CheckEqual(t, a.status, http.StatusAccepted, r, a)
		must.CheckContains(t, stream.Data(), `"protocolVersion":"`+string(r)+`"`, r)
	}
}

// On the pair, the status of a POST request says that the request is accepted, so that a
// cancellation finds it, and that another request with its id is rejected.
func TestRequestOnThePairIsAcceptedBeforeItsStatus(t *testing.T) {
	e := newEndpoint(t)
	p := e.ready()
	post := func(format string, id int) { e.do("POST", p.endpoint, fmt.Sprintf(format, id)) }
	for id := range 40 {
		post(waitCall, id+1)
		post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id+1)
		w := <-e.waiting
		must.Receive(t, w.ctx.Done(), "the call")
		must.CheckIs(t, context.Cause(w.ctx), call.ErrCancelled)
		post(waitCall, id+1000)
		post(waitCall, id+1000)
		must.CheckContains(t, p.Data(), `"code":-32600`)
		close((<-e.waiting).release)
		must.CheckContains(t, p.Data(), "waited")
	}
}

// A load balancer must send the messages of a pair to the replica with its event stream: the other ones do not know it.
// Changes of resources reach the pair from every replica.
func TestAPairIsServedByTheReplicaOfItsEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2, withNote)
		x, endpoint := openPair(t, f.servers[0])
		f.accept(0, endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"), wiretest.Initialized,
			`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note://a"}}`)
		f.servers[1].ResourceUpdated("note://a")
		time.Sleep(coalescing)
		got := x.messages()
		must.CheckThat(t, len(got) == 4 && strings.Contains(got[3], "note://a"), "%q", got)
		unknown := func(replica int, endpoint string) {
			t.Helper()
			if status, text := f.post(replica, endpoint, pingBody); status != http.StatusNotFound ||
				!strings.Contains(text, "session not found: open a new event stream") {
				t.Errorf("%s at replica %d: %d %s", endpoint, replica, status, text)
			}
		}
		unknown(0, "/?sessionId=unknown")
		unknown(1, endpoint)
		time.Sleep(time.Hour)
		f.accept(0, endpoint, pingBody)
		x.leave()
		synctest.Wait()
		unknown(0, endpoint)
	})
}
