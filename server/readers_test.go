package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// streamsOf returns the event streams of a server in each revision: responses with progress and comments, the standalone
// stream and a resumed one of a session, and HTTP+SSE. All are silent for so long that they have hundreds of comments,
// and have texts with characters that some readers take for line breaks.
func streamsOf(t *testing.T) map[string]string {
	t.Helper()
	s := httpServer()
	defer shutdown(t, s)
	s.Limits.KeepAlive, s.Limits.SessionIdle = time.Second, time.Hour
	const silence = 280 * time.Second
	silentFor := make(chan time.Duration, 1)
	server.AddTool(s, mcp.Tool{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
		_ = server.Progress(ctx, 1, 2, "NEL \u0085 and LS \u2028")
		time.Sleep(<-silentFor)
		_ = server.Progress(ctx, 2, 2, "PS \u2029")
		return "slow\u2028\u0085\u2029", nil
	})
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{` +
		`"progressToken":"p"}}}`
	accept := []string{"Accept", "text/event-stream"}
	streams := make(map[string]string)
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		rec := inBubble(s, http.MethodPost, fmt.Sprintf(wiretest.Initialize, revision), accept...)
		streams["session, handshake "+revision] = rec.Body.String()
		session := append([]string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id")}, accept...)
		inBubble(s, http.MethodPost, wiretest.Initialized, session...)
		answer := func(pong string) { inBubble(s, http.MethodPost, pong, session...) }
		standalone := listenTo(t, s, answer, session...)
		silentFor <- silence
		response := openIn(t, s, http.MethodPost, "/", fmt.Sprintf(call, 1), session...)
		<-response.done
		streams["session, response "+revision] = response.body()
		server.AddTool(s, mcp.Tool{Name: "new" + revision}, func(context.Context, struct{}) (string, error) { return "", nil })
		time.Sleep(time.Minute)
		standalone.end()
		streams["session, GET "+revision] = standalone.body()
		silentFor <- silence
		cut := openIn(t, s, http.MethodPost, "/", fmt.Sprintf(call, 2), session...)
		first := cut.frames()[0].ID
		cut.end()
		if first != "" {
			resumed := openIn(t, s, http.MethodGet, "/", "", append(session, "Last-Event-ID", first)...)
			<-resumed.done
			streams["session, resumed "+revision] = resumed.body()
		} else {
			time.Sleep(silence)
		}
		silentFor <- 0
		rec = inBubble(s, http.MethodPost, fmt.Sprintf(call, 3), session...)
		streams["session, quick response "+revision] = rec.Body.String()
	}

	var post func(message string)
	pair := listenTo(t, s, func(pong string) { post(pong) })
	endpoint := pair.frames()[0].Data
	post = func(message string) { wiretest.Record(s, http.MethodPost, "http://localhost"+endpoint, message) }
	post(fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
	post(wiretest.Initialized)
	silentFor <- silence
	post(fmt.Sprintf(call, 1))
	time.Sleep(silence + time.Minute)
	pair.end()
	streams["HTTP+SSE"] = pair.body()

	body, header := modernCall(`"name":"slow","arguments":{}`)
	silentFor <- silence
	response := openIn(t, s, http.MethodPost, "/", body, append(header, accept...)...)
	<-response.done
	streams["modern, response"] = response.body()
	return streams
}

// The table of wiretest.Readers says what each of them does not read.
func TestEventStreamsAreReadByOtherSDKs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := streamsOf(t)
		must.CheckThat(t, len(streams) >= 15, "%d streams", len(streams))
		for name, stream := range streams {
			var want []string
			for _, e := range wiretest.ReadEvents(strings.NewReader(stream)).Take(-1) {
				if e.Data != "" && e.Name != "endpoint" {
					want = append(want, e.Data)
				}
			}
			must.CheckThat(t, len(want) != 0 && !strings.Contains(stream, "retry"),
				"%s: %d messages in\n%.1000s", name, len(want), stream)
			for _, r := range wiretest.Readers {
				offered := r.Newest == "" || !strings.HasSuffix(name, "2025-11-25")
				if r.Pair && name == "HTTP+SSE" || r.Session && offered && strings.HasPrefix(name, "session") ||
					r.Modern && strings.HasPrefix(name, "modern") {
					if got, err := r.Messages(stream); err != nil || !slices.Equal(got, want) {
						t.Errorf("%s: %s reads %d of %d messages, %v, of\n%.1000s", name, r.Name, len(got), len(want), err,
							stream)
					}
				}
			}
		}
	})
}
