package httpwire

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stream that breaks in an event is resumed before that event, which the client has not
// received.
func TestStreamThatBreaksInAnEventIsResumedBeforeIt(t *testing.T) {
	const (
		whole = "id: 1\nretry: 500\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}\n\n"
		next  = "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/two\"}\n\n"
	)
	for _, cut := range []int{len("id: 2\n"), len("id: 2\ndata: {"), len(next) - 1} {
		synctest.Test(t, func(t *testing.T) {
			g := &gets{t0: time.Now()}
			c := listResumed(t, strings.ReplaceAll(whole+next[:cut], "id: ", "id: post/"), func(w http.ResponseWriter, r *http.Request, response <-chan string) {
				g.note(r)
				switch r.Header.Get("Last-Event-ID") {
				case "": // the standalone stream
					writeEvents(w, whole+next[:cut])
				case "1":
					writeEvents(w, next)
					<-r.Context().Done()
				case "post/1":
					writeEvents(w, "id: post/3\ndata: "+<-response+"\n\n")
				}
			})
			time.Sleep(time.Second)
			if got := fmt.Sprint(c.received.all()); got != "[notifications/one notifications/one notifications/two]" {
				t.Errorf("cut after %d bytes: received %s after requests for %s", cut, got, g)
			}
		})
	}
}

// The client does not send the server an event id of any size, and waits at most an hour.
func TestEventIDAndRetryAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gets{t0: time.Now()}
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if handshake(w, r, body) {
				return
			}
			if g.note(r) == 1 {
				writeEvents(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\nid: "+strings.Repeat("x", 900_000)+"\nretry: 2000000000\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"y\"}\n\n")
				return
			}
			writeEvents(w, ":\n\n")
			<-r.Context().Done()
		})
		c := newLegacy(t, p.options(t))
		time.Sleep(2 * time.Hour)
		c.Close()
		if got := g.String(); got != "[0s 1h0m0s] ,1" {
			t.Errorf("%.100s", got)
		}
	})
}
