package httpclient

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// gets records the times and Last-Event-ID values of the GET requests that a peer received.
type gets struct {
	mu   sync.Mutex
	at   []time.Duration
	last []string
	t0   time.Time
}

func (g *gets) note(r *http.Request) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = append(g.at, time.Since(g.t0))
	g.last = append(g.last, r.Header.Get("Last-Event-ID"))
	return len(g.at)
}

func (g *gets) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Sprintf("%v %s", g.at, strings.Join(g.last, ","))
}

func TestStandaloneStreamDeliversMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case handshake(w, r, body):
			case r.Method == http.MethodGet:
				writeEvents(w, ": hello\n\nevent: other\ndata: {}\n\n"+
					"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"+
					"data: nonsense\n\n"+"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n")
				<-r.Context().Done()
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		})
		c := newLegacy(t, p.options(t))
		synctest.Wait()
		must.CheckEqual(t, fmt.Sprint(c.received.all()), "[notifications/tools/list_changed ping]")
		_, reply := p.request(len(p.asked()) - 1)
		must.CheckEqual(t, reply, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// A server of 2025-03-26 may send its requests and notifications as a batch (basic/transports,
// Listening for Messages from the Server). Other revisions have no batches.
// Rule J7.
func TestStandaloneStreamHasBatchesIn20250326Only(t *testing.T) {
	for _, r := range mcp.Revisions() {
		if r.Modern() || r == mcp.V20241105 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			begin := make(chan struct{})
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
				if !handshake(w, r, body) {
					writeEvents(w, ":\n\n")
					<-begin
					writeEvents(w,
						`data: [{"jsonrpc":"2.0","method":"notifications/one"},{"jsonrpc":"2.0","id":1,"result":{}},`+
							`7,{"jsonrpc":"2.0","method":"notifications/two"}]`+"\n\ndata: []\n\n"+
							`data: {"jsonrpc":"2.0","method":"notifications/three"}`+"\n\n")
					<-r.Context().Done()
				}
			})
			c := newLegacy(t, p.options(t))
			c.SetRevision(r)
			close(begin)
			synctest.Wait()
			want := "[notifications/three]"
			if r == mcp.V20250326 {
				want = "[notifications/one notifications/two notifications/three]"
			}
			must.CheckEqual(t, fmt.Sprint(c.received.all()), want, r)
		})
	}
}

// Rules T12, J3: a response on the standalone stream is dropped, whether well-formed or not.
func TestResponsesOnTheStandaloneStreamAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, received := make(chan string), make(chan struct{})
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case handshake(w, r, body):
			case r.Method == http.MethodGet:
				writeEvents(w, ":\n\n")
				id := <-asked
				writeEvents(w, `data: {"jsonrpc":"2.0","id":`+id+`,"result":{"forged":1}}`+"\n\n"+
					`data: {"jsonrpc":"2.0","id":`+id+
					`,"result":7}`+"\n\n")
				close(received)
				<-r.Context().Done()
			default:
				asked <- idOf(body)
				<-received
				time.Sleep(time.Second)
				writeJSON(w, resultOf(body))
			}
		})
		c := newLegacy(t, p.options(t))
		must.CheckEqual(t, must.Get(list(t.Context(), c))(t), `{"for":"tools/list"}`)
	})
}

func TestClientAsksOnceForStandaloneStream(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"405":    func(w http.ResponseWriter) { w.WriteHeader(405) },
		"404":    func(w http.ResponseWriter) { w.WriteHeader(404) },
		"400":    func(w http.ResponseWriter) { w.WriteHeader(400) },
		"a page": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); w.WriteHeader(200) },
		"302":    func(w http.ResponseWriter) { w.Header().Set("Location", "http://other/"); w.WriteHeader(302) },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
				switch {
				case handshake(w, r, body):
				case r.Method == http.MethodGet:
					answer(w)
				default:
					writeJSON(w, resultOf(body))
				}
			})
			c := newLegacy(t, p.options(t))
			time.Sleep(time.Hour)
			must.Check(t, must.Err(list(t.Context(), c)), name)
			c.Close()
			must.CheckEqual(t, strings.Count(fmt.Sprint(p.asked()), "GET"), 1, name)
		})
	}
}

// A stream that ends is resumed after its last event, when the delay that the server asked for is over.
// Rule U4.
func TestStandaloneStreamIsResumedAfterTheRetryDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gets{t0: time.Now()}
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if handshake(w, r, body) {
				return
			}
			switch g.note(r) {
			case 1:
				writeEvents(w, "id: a\nretry: 2500\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n")
			case 2:
				writeEvents(w, "id: b\nretry: 90000\n\n") // an id without a message
			case 3:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				writeEvents(w, ":\n\n")
				<-r.Context().Done()
			}
		})
		c := newLegacy(t, p.options(t))
		time.Sleep(time.Hour)
		c.Close()
		must.CheckEqual(t, g.String(), "[0s 2.5s 1m32.5s 3m2.5s] ,a,b,b")
	})
}

// Rule U4.
func TestClientLimitsTheRateOfReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gets{t0: time.Now()}
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if !handshake(w, r, body) {
				n := g.note(r)
				writeEvents(w, fmt.Sprintf("id: %d\nretry: 0\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", n))
			}
		})
		c := newLegacy(t, p.options(t))
		time.Sleep(10*time.Second + minRetry/2)
		c.Close()
		must.CheckEqual(t, len(g.at), 101)
	})
}

func TestClientGivesUpStandaloneStreamWithoutMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gets{t0: time.Now()}
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if !handshake(w, r, body) {
				g.note(r)
				writeEvents(w, ":\n\n")
			}
		})
		c := newLegacy(t, p.options(t))
		time.Sleep(time.Hour)
		c.Close()
		must.CheckEqual(t, g.String(), "[0s 1s 2s 3s 4s] ,,,,")
	})
}

// If the server cannot resume the standalone stream, the client asks once for a new one.
func TestStandaloneStreamThatCannotBeResumedIsReplaced(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusGone} {
		synctest.Test(t, func(t *testing.T) {
			g := &gets{t0: time.Now()}
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
				if handshake(w, r, body) {
					return
				}
				switch n := g.note(r); {
				case r.Header.Get("Last-Event-ID") != "":
					w.WriteHeader(status)
				case n == 1:
					writeEvents(w, "id: 7\ndata:\n\n")
				default:
					w.WriteHeader(http.StatusMethodNotAllowed)
				}
			})
			c := newLegacy(t, p.options(t))
			time.Sleep(time.Hour)
			c.Close()
			must.CheckEqual(t, g.String(), "[0s 1s 1s] ,7,", status)
		})
	}
}

// The client reconnects forever if a proxy closes silent streams every few minutes.
func TestLongStandaloneStreamIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gets{t0: time.Now()}
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if !handshake(w, r, body) {
				g.note(r)
				writeEvents(w, ":\n\n")
				select {
				case <-time.After(time.Minute):
				case <-r.Context().Done():
				}
			}
		})
		c := newLegacy(t, p.options(t))
		time.Sleep(time.Hour)
		c.Close()
		n := len(g.at)
		must.CheckThat(t, n >= 55, "opened %d times in an hour", n)
	})
}

// listResumed requests tools/list from a server that ends the stream of the POST request after
// the events begun. get serves the GET requests; response contains the response to tools/list.
func listResumed(t *testing.T, begun string,
	get func(w http.ResponseWriter, r *http.Request, response <-chan string)) *caller {
	t.Helper()
	response := make(chan string, 1)
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		switch {
		case handshake(w, r, body):
		case r.Method == http.MethodPost:
			response <- resultOf(body)
			writeEvents(w, begun)
		default:
			get(w, r, response)
		}
	})
	c := newLegacy(t, p.options(t))
	must.CheckEqual(t, must.Get(list(t.Context(), c))(t), `{"for":"tools/list"}`)
	return c
}

// The client resumes a broken stream of a session and receives the messages that were sent
// in the meantime (2025-11-25, basic/transports, Resumability and Redelivery). Rule U4.
func TestBrokenResponseOfASessionIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gets{t0: time.Now()}
		c := listResumed(t, "id: p/0\nretry: 500\ndata:\n\n",
			func(w http.ResponseWriter, r *http.Request, response <-chan string) {
				if r.Header.Get("Last-Event-ID") == "" { // the standalone stream
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				switch g.note(r) {
				case 1:
					writeEvents(w, "id: p/1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
				case 2:
					w.WriteHeader(http.StatusBadGateway)
				default:
					writeEvents(w, "id: p/2\ndata: "+<-response+"\n\n")
				}
			})
		must.CheckEqual(t, g.String(), "[500ms 1s 1.5s] p/0,p/1,p/1")
		must.CheckEqual(t, fmt.Sprint(c.received.all()), "[notifications/x]")
	})
}

func TestResponseThatCannotBeResumedIsErrConnectionLost(t *testing.T) {
	for name, tc := range map[string]struct {
		events string
		status int // status of the response to the GET request
		gets   int
	}{
		"no id":         {": hello\n\n", 405, 0},
		"405":           {"id: 1\ndata:\n\n", 405, 1},
		"404":           {"id: 1\ndata:\n\n", 404, 1},
		"503 each time": {"id: 1\ndata:\n\n", 503, maxReconnects - 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &gets{t0: time.Now()}
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
				switch {
				case handshake(w, r, body):
				case r.Method == http.MethodPost:
					writeEvents(w, tc.events)
				case r.Header.Get("Last-Event-ID") == "":
					w.WriteHeader(http.StatusMethodNotAllowed)
				default:
					g.note(r)
					w.WriteHeader(tc.status)
				}
			})
			c := newLegacy(t, p.options(t))
			must.CheckIs(t, must.Err(list(t.Context(), c)), call.ErrConnectionLost, name)
			must.CheckThat(t, len(g.at) <= tc.gets+1 && len(g.at) >= tc.gets, "%s: %d attempts", name, len(g.at))
		})
	}
}

// Rule U6: in the modern era, a request whose stream breaks is lost and not resumed.
func TestBrokenModernResponseIsNotResumed(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		writeEvents(w, "id: 1\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n")
	})
	c := newModern(t, p.options(t))
	must.CheckIs(t, must.Err(list(t.Context(), c)), call.ErrConnectionLost)
	must.CheckEqual(t, fmt.Sprint(p.asked()), "[POST /mcp tools/list]")
}

// A stream that breaks in an event is resumed before that event, which the client has not received.
func TestStreamThatBreaksInAnEventIsResumedBeforeIt(t *testing.T) {
	const (
		whole = "id: 1\nretry: 500\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}\n\n"
		next  = "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/two\"}\n\n"
	)
	for _, cut := range []int{len("id: 2\n"), len("id: 2\ndata: {"), len(next) - 1} {
		synctest.Test(t, func(t *testing.T) {
			g := &gets{t0: time.Now()}
			c := listResumed(t, strings.ReplaceAll(whole+next[:cut], "id: ", "id: post/"),
				func(w http.ResponseWriter, r *http.Request, response <-chan string) {
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
			must.CheckEqual(t, fmt.Sprint(c.received.all()), "[notifications/one notifications/one notifications/two]",
				cut, "bytes: received", g)
		})
	}
}

// The client does not send back an event ID that is too long, and waits at most an hour.
func TestEventIDAndRetryAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gets{t0: time.Now()}
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if handshake(w, r, body) {
				return
			}
			if g.note(r) == 1 {
				writeEvents(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\nid: "+
					strings.Repeat("x", 900_000)+
					"\nretry: 2000000000\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"y\"}\n\n")
				return
			}
			writeEvents(w, ":\n\n")
			<-r.Context().Done()
		})
		c := newLegacy(t, p.options(t))
		time.Sleep(2 * time.Hour)
		c.Close()
		must.CheckEqual(t, g.String(), "[0s 1h0m0s] ,1")
	})
}

// Rule U4.
func TestReconnectWaitsForTheRetryDelay(t *testing.T) {
	for _, tc := range []struct {
		stream string
		want   time.Duration
	}{
		{"retry: 3000\n\n", 3 * time.Second},
		{"retry: 3000\nid: 1\ndata: {}\n\n", 3 * time.Second},
		{"data: {}\n\n", defaultRetry},
		{"retry: 0\n\n", minRetry},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := reconnects{wait: defaultRetry}
			events := r.read(strings.NewReader(tc.stream), 1<<10)
			for {
				if _, err := events.Next(); err != nil {
					break
				}
			}
			begin := time.Now()
			must.CheckThat(t, r.broke(t.Context(), events) && time.Since(begin) == tc.want,
				"%q: reconnected after %v, want %v", tc.stream, time.Since(begin), tc.want)
			// A failed connection does not change the delay.
			begin = time.Now()
			must.CheckThat(t, r.broke(t.Context(), nil) && time.Since(begin) == tc.want,
				"%q: tried again after %v, want %v", tc.stream, time.Since(begin), tc.want)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			must.CheckThat(t, !r.broke(ctx, nil), "%q: reconnected after the context ended", tc.stream)
		})
	}
}

// slowObserver takes half a second to note that the standalone stream is open.
type slowObserver struct {
	*legacy.Client
	opened atomic.Int32
}

func (o *slowObserver) StreamOpened() {
	time.Sleep(time.Second / 2)
	o.opened.Add(1)
	o.Client.StreamOpened()
}

// Otherwise a watch that begins after the handshake receives the changes with Resync twice.
func TestHandshakeEndsAfterTheReceiverKnowsOfTheStandaloneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if !handshake(w, r, body) {
				writeEvents(w, ":\n\n")
				<-r.Context().Done()
			}
		})
		o := p.options(t)
		era := legacy.NewClient(nil, o.Logger)
		observer := &slowObserver{Client: era}
		c := NewClient(o, false, observer)
		era.Wire = c
		defer era.Close()
		defer c.Close()
		must.Do(t, must.Err(era.Handshake(t.Context(), mcp.V20251125, mcp.Implementation{Name: "c", Version: "1"},
			mcp.ClientCapabilities{}, &outbound.Request{})))
		must.CheckEqual(t, observer.opened.Load(), 1)
	})
}
