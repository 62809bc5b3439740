package httpwire

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// gets are the times and Last-Event-IDs of the GETs that a peer was sent.
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

func TestStandaloneStreamIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case handshake(w, r, body):
			case r.Method == http.MethodGet:
				writeEvents(w, ": hello\n\nevent: other\ndata: {}\n\n"+
					"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"+
					"data: nonsense\n\n"+
					"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n")
				<-r.Context().Done()
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		})
		c := newLegacy(t, p.options(t))
		synctest.Wait()
		if got := fmt.Sprint(c.heard.all()); got != "[notifications/tools/list_changed ping]" {
			t.Errorf("%s", got)
		}
		_, reply := p.request(len(p.asked()) - 1)
		if reply != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Errorf("the ping was answered with %s", reply)
		}
	})
}

// T12, J3: a response comes where it was asked for. On the standalone stream it is
// nobody's, be it well-formed or not.
func TestT12ResponsesOnTheStandaloneStreamAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, heard := make(chan string), make(chan struct{})
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case handshake(w, r, body):
			case r.Method == http.MethodGet:
				writeEvents(w, ":\n\n")
				id := <-asked
				writeEvents(w, `data: {"jsonrpc":"2.0","id":`+id+`,"result":{"forged":1}}`+"\n\n"+`data: {"jsonrpc":"2.0","id":`+id+`,"result":7}`+"\n\n")
				close(heard)
				<-r.Context().Done()
			default:
				asked <- idOf(body)
				<-heard
				time.Sleep(time.Second)
				writeJSON(w, resultOf(body))
			}
		})
		c := newLegacy(t, p.options(t))
		if got, err := list(t.Context(), c); err != nil || got != `{"for":"tools/list"}` {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func TestServerWithoutAStandaloneStreamIsAskedOnce(t *testing.T) {
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
			if _, err := list(t.Context(), c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			c.Close()
			if got := strings.Count(fmt.Sprint(p.asked()), "GET"); got != 1 {
				t.Errorf("%s: asked %d times", name, got)
			}
		})
	}
}

// A stream that ends is opened again: after what the server wants us to wait, behind
// the last event that has come.
func TestU4StandaloneStreamIsReopenedAsTheServerWants(t *testing.T) {
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
				writeEvents(w, "id: b\nretry: 90000\n\n") // nothing but an id
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
		if got := g.String(); got != "[0s 2.5s 1m32.5s 3m2.5s] ,a,b,b" {
			t.Errorf("%s", got)
		}
	})
}

func TestU4ServerCannotMakeAClientSpin(t *testing.T) {
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
		if n := len(g.at); n != 101 {
			t.Errorf("%d times in ten seconds", n)
		}
	})
}

func TestStandaloneStreamThatBringsNothingIsGivenUp(t *testing.T) {
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
		if got := g.String(); got != "[0s 1s 2s 3s 4s] ,,,," {
			t.Errorf("%s", got)
		}
	})
}

// A server that cannot resume the standalone stream is asked for a new one, once.
func TestStandaloneStreamThatCannotBeResumedBeginsAnew(t *testing.T) {
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
			if got := g.String(); got != "[0s 1s 1s] ,7," {
				t.Errorf("%d: %s", status, got)
			}
		})
	}
}

// A proxy that cuts silent streams every few minutes does not make the server unheard of.
func TestStandaloneStreamThatWasOpenForLongIsNoFailure(t *testing.T) {
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
		if n := len(g.at); n < 55 {
			t.Errorf("opened %d times in an hour", n)
		}
	})
}

// A session's stream may break off: what was said meanwhile comes when it is resumed
// (2025-11-25, basic/transports, Resumability and Redelivery).
func TestU4BrokenResponseOfASessionIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gets{t0: time.Now()}
		response := make(chan string, 1)
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case handshake(w, r, body):
			case r.Method == http.MethodPost:
				response <- resultOf(body)
				writeEvents(w, "id: p/0\nretry: 500\ndata:\n\n")
			case r.Header.Get("Last-Event-ID") == "": // the standalone stream
				w.WriteHeader(http.StatusMethodNotAllowed)
			default:
				switch g.note(r) {
				case 1:
					writeEvents(w, "id: p/1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
				case 2:
					w.WriteHeader(http.StatusBadGateway)
				default:
					writeEvents(w, "id: p/2\ndata: "+<-response+"\n\n")
				}
			}
		})
		c := newLegacy(t, p.options(t))
		if got, err := list(t.Context(), c); err != nil || got != `{"for":"tools/list"}` {
			t.Errorf("%s, %v", got, err)
		}
		if got := g.String(); got != "[500ms 1s 1.5s] p/0,p/1,p/1" {
			t.Errorf("%s", got)
		}
		if got := fmt.Sprint(c.heard.all()); got != "[notifications/x]" {
			t.Errorf("heard %s", got)
		}
	})
}

func TestBrokenResponseThatCannotBeResumedIsALostConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		events string
		status int // of the answer to the attempt
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
			if _, err := list(t.Context(), c); !errors.Is(err, call.ErrConnectionLost) {
				t.Errorf("%s: %v", name, err)
			}
			if len(g.at) > tc.gets+1 || len(g.at) < tc.gets {
				t.Errorf("%s: %d attempts", name, len(g.at))
			}
		})
	}
}

// U6: in the stateless era a request whose stream broke is lost, and nobody goes on with it.
func TestU6BrokenModernResponseIsNotResumed(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		writeEvents(w, "id: 1\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n")
	})
	c := newModern(t, p.options(t))
	if _, err := list(t.Context(), c); !errors.Is(err, call.ErrConnectionLost) {
		t.Errorf("%v", err)
	}
	if got := fmt.Sprint(p.asked()); got != "[POST /mcp tools/list]" {
		t.Errorf("%s", got)
	}
}

func TestT5PairTakesAnEndpointOfItsOwnOriginOnly(t *testing.T) {
	for endpoint, want := range map[string]string{
		"/messages?sessionId=1":          "POST /messages",
		"messages":                       "POST /mcp/messages",
		"?sessionId=1":                   "POST /mcp/sse",
		"http://server/messages":         "POST /messages",
		"HTTP://SERVER/messages":         "POST /messages",
		"//server/messages":              "POST /messages",
		"/messages#fragment":             "POST /messages",
		"http://other/messages":          "",
		"//other/messages":               "",
		"https://server/messages":        "",
		"http://server:8080/messages":    "",
		"http://user@server/messages":    "",
		"http://server.other/messages":   "",
		"http://server@other/messages":   "",
		"javascript:alert(1)":            "",
		"file:///etc/passwd":             "",
		"http:messages":                  "",
		"http://server:port/messages":    "",
		"http://[::1":                    "",
		"\\\\other\\messages":            "POST /mcp/%5C%5Cother%5Cmessages",
		"http://server\t.other/messages": "",
	} {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			if !strings.EqualFold(r.Host, "server") || r.Header.Get("Authorization") != "Bearer t" {
				t.Errorf("%s: %s asked with %v", endpoint, r.Host, r.Header)
			}
			if r.Method == http.MethodGet {
				writeEvents(w, "event: endpoint\ndata: "+endpoint+"\n\n")
				<-r.Context().Done()
				return
			}
			w.WriteHeader(http.StatusAccepted)
		})
		o := p.options(t)
		o.URL = "http://server/mcp/sse"
		o.Header = http.Header{"Authorization": {"Bearer t"}}
		c, err := DialPair(t.Context(), 0, o, deaf{})
		if want == "" {
			if !errors.Is(err, call.ErrInvalidResponse) {
				t.Errorf("%q: %v", endpoint, err)
			}
			if got := p.asked(); len(got) != 1 {
				t.Errorf("%q: %q", endpoint, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", endpoint, err)
			continue
		}
		if err := c.Send(t.Context(), &rpc.Outgoing{Message: []byte("{}")}); err != nil {
			t.Errorf("%q: %v", endpoint, err)
		}
		c.Close()
		r, _ := p.request(1)
		if got := r.Method + " " + r.URL.EscapedPath(); got != want {
			t.Errorf("%q: %s, want %s", endpoint, got, want)
		}
	}
}

// deaf is a receiver that nothing is expected of.
type deaf struct{}

func (deaf) Receive(*jsonrpc.Message)               {}
func (deaf) ReceiveInvalid(*jsonrpc.Message, error) {}
func (deaf) Lost(error)                             {}

// losing is a receiver that tells why nothing more arrives.
type losing struct {
	deaf
	why chan error
}

func (l losing) Lost(err error) { l.why <- err }

// Credentials in the URL are for the endpoint too, which is of the same origin.
func TestPairKeepsTheCredentialsOfItsURL(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
			t.Errorf("%s without credentials: %v", r.Method, r.Header)
		}
		if r.Method == http.MethodGet {
			writeEvents(w, "event: endpoint\ndata: "+r.URL.Query().Get("endpoint")+"\n\n")
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	for _, endpoint := range []string{"/messages", "messages", "http://server/messages", "//server/messages"} {
		o := p.options(t)
		o.URL = "http://u:p@server/sse?endpoint=" + endpoint
		c, err := DialPair(t.Context(), 0, o, deaf{})
		if err != nil {
			t.Fatalf("%s: %v", endpoint, err)
		}
		if err := c.Send(t.Context(), &rpc.Outgoing{Message: []byte("{}")}); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
		c.Close()
	}
}

func TestPairBeginsWithItsEndpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   error
	}{
		"a message first": {func(w http.ResponseWriter) { writeEvents(w, "data: {}\n\nevent: endpoint\ndata: /m\n\n") }, call.ErrInvalidResponse},
		"nothing":         {func(w http.ResponseWriter) { writeEvents(w, ":\n\n") }, call.ErrConnectionLost},
		"a page":          {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); w.WriteHeader(200) }, call.ErrInvalidResponse},
		"405":             {func(w http.ResponseWriter) { w.WriteHeader(405) }, &call.StatusError{}},
	} {
		p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { tc.answer(w) })
		_, err := DialPair(t.Context(), 0, p.options(t), deaf{})
		var status *call.StatusError
		if _, ok := tc.want.(*call.StatusError); ok && !errors.As(err, &status) || !ok && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDiallingAPairEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			writeEvents(w, ":\n\n") // and no endpoint
			<-r.Context().Done()
		})
		ctx, cancel := contextWithTimeout(t, 10*time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := DialPair(ctx, 0, p.options(t), deaf{}); !errors.Is(err, errGaveUp) || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestPairThatBreaksIsLost(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		writeEvents(w, "event: endpoint\ndata: /m\n\n")
		if r.URL.Query().Get("cut") == "" {
			<-r.Context().Done()
		}
	})
	o := p.options(t)
	to := losing{why: make(chan error, 1)}
	c, err := DialPair(t.Context(), 0, o, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), &rpc.Outgoing{Message: []byte("{}"), Method: mcp.MethodPing}); !errors.Is(err, ErrSessionGone) {
		t.Errorf("404: %v", err)
	}
	c.Close()
	c.Close()
	if err := <-to.why; !errors.Is(err, call.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := c.Send(t.Context(), &rpc.Outgoing{Message: []byte("{}")}); !errors.Is(err, call.ErrNotSent) {
		t.Errorf("after Close: %v", err)
	}

	o.URL += "?cut=1"
	if c, err = DialPair(t.Context(), 0, o, to); err != nil {
		t.Fatal(err)
	}
	if err := <-to.why; !errors.Is(err, call.ErrConnectionLost) {
		t.Errorf("cut: %v", err)
	}
	c.Close()
}

// A POST that is never answered does not keep Close waiting, nor its caller once the
// stream has ended.
func TestPairClosesWithPostsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			if r.Method == http.MethodGet {
				writeEvents(w, "event: endpoint\ndata: /m\n\n")
			}
			<-r.Context().Done()
		})
		c, err := DialPair(t.Context(), 0, p.options(t), deaf{})
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan error)
		go func() { sent <- c.Send(t.Context(), &rpc.Outgoing{Message: []byte("{}")}) }()
		synctest.Wait()
		begun := time.Now()
		go func() { c.Close() }()
		if err := <-sent; !errors.Is(err, call.ErrConnectionLost) || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		c.Close()
	})
}
