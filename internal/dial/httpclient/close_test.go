package httpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A server that does not end the body after a response delays the client only briefly.
func TestBodyWithoutEndDoesNotBlockTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch methodOf(body) {
			case mcp.MethodListTools:
				writeEvents(w, "data: "+resultOf(body)+"\n\n")
			case mcp.MethodInitialize:
				handshake(w, r, body)
				return
			case mcp.MethodPing:
				w.WriteHeader(http.StatusBadRequest)
				w.(http.Flusher).Flush()
			default: // notifications/initialized, GET, DELETE
				writeEvents(w, ": nothing\n\n")
			}
			<-done
		})
		o := p.options(t)
		begun := time.Now()
		took := func(what string, most time.Duration) {
			t.Helper()
			d := time.Since(begun)
			must.CheckThat(t, d <= most, "%s took %v", what, d)
			begun = time.Now()
		}
		c := newLegacy(t, o)
		took("the handshake", 50*time.Millisecond)
		must.Check(t, must.Err(list(t.Context(), c)))
		took("a call", 50*time.Millisecond)
		_, err := c.call(t.Context(), &outbound.Request{Method: mcp.MethodPing})
		must.CheckThat(t, err != nil, "no error")
		took("an error", errorBodyTimeout)
		c.Close()
		took("Close", 50*time.Millisecond)
		close(done)
	})
}

func TestCloseEndsCallsAndTheSession(t *testing.T) {
	begun := make(chan struct{}, 16)
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			begun <- struct{}{}
			<-r.Context().Done()
		}
	})
	c := newLegacy(t, p.options(t))
	failed := make(chan error)
	for i := range 8 {
		go func() {
			req := &outbound.Request{Method: mcp.MethodListTools}
			if i%2 == 0 {
				req.OnProgress = func(outbound.Progress) {}
			}
			_, err := c.call(context.Background(), req)
			failed <- err
		}()
	}
	for range 8 {
		<-begun
	}
	var closing sync.WaitGroup
	for range 4 {
		closing.Go(func() { c.Close() })
	}
	for range 8 {
		must.CheckIs(t, <-failed, call.ErrClosed)
	}
	closing.Wait()
	c.Close()
	err := c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}")})
	must.CheckThat(t, errors.Is(err, call.ErrClosed) && errors.Is(err, call.ErrNotSent), "after Close: %v", err)
	deleted := 0
	for _, line := range p.asked() {
		if line == "DELETE /mcp" {
			deleted++
		}
		must.CheckThat(t, !strings.Contains(line, "cancelled"), "%s: the end of the session cancels", line)
	}
	must.CheckEqual(t, deleted, 1)
}

// Close returns within a bounded time, whatever the server does.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case r.Method == http.MethodGet:
				writeEvents(w, ": nothing\n\n")
				<-r.Context().Done()
			case r.Method == http.MethodDelete || !handshake(w, r, body):
				<-r.Context().Done()
			}
		})
		c := newLegacy(t, p.options(t))
		go func() { _, _ = list(context.Background(), c) }()
		synctest.Wait()
		begun := time.Now()
		c.Close()
		took := time.Since(begun)
		must.CheckThat(t, took <= endSessionTimeout, "%v", took)
	})
}

// Close of a client of 2026-07-28 ends the streams of its requests at once, even if the server does not.
func TestCloseDoesNotWaitForOpenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			writeEvents(w, ": nothing\n\n")
			<-r.Context().Done()
		})
		c := newModern(t, p.options(t))
		ended := make(chan error)
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListen} {
			go func() {
				_, err := c.call(context.Background(), &outbound.Request{Method: method})
				ended <- err
			}()
		}
		synctest.Wait()
		begun := time.Now()
		c.Close()
		for range 2 {
			must.CheckIs(t, <-ended, call.ErrClosed)
		}
		took := time.Since(begun)
		must.CheckThat(t, took <= 0, "%v", took)
	})
}

// A response of 700 MB is rejected before it fills the memory.
func TestResponseSizeIsLimited(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter, chunk []byte){
		"a body": func(w http.ResponseWriter, chunk []byte) {
			w.Header().Set("Content-Type", "application/json")
			for range 700 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"an event": func(w http.ResponseWriter, chunk []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: ")
			for range 700 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
	} {
		sent := make(chan int, 1)
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			counting := &counter{ResponseWriter: w}
			write(counting, chunk)
			sent <- counting.n
		})
		must.CheckIs(t, must.Err(list(t.Context(), newModern(t, p.options(t)))), call.ErrInvalidResponse, name)
		if n := <-sent; n > 32<<20 { // after a large event, the rest is skipped up to a limit
			t.Errorf("%s: %d bytes were taken", name, n)
		}
	}
}

type counter struct {
	http.ResponseWriter
	n int
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += n
	return n, err
}

// Rule T5.
func TestPairRejectsEndpointsOfOtherOrigins(t *testing.T) {
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
			must.CheckThat(t, strings.EqualFold(r.Host, "server") && r.Header.Get("Authorization") == "Bearer t",
				"%s: %s asked with %v", endpoint, r.Host, r.Header)
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
		c, err := DialPair(t.Context(), 0, o, ignoring{})
		if want == "" {
			must.CheckIs(t, err, call.ErrInvalidResponse, endpoint)
			got := p.asked()
			must.CheckEqual(t, len(got), 1, endpoint, got)
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", endpoint, err)
			continue
		}
		must.Check(t, c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}")}), endpoint)
		c.Close()
		r, _ := p.request(1)
		must.CheckEqual(t, r.Method+" "+r.URL.EscapedPath(), want, endpoint)
	}
}

// ignoring is a receiver that ignores everything.
type ignoring struct{}

func (ignoring) Receive(*jsonrpc.Message)               {}
func (ignoring) ReceiveInvalid(*jsonrpc.Message, error) {}
func (ignoring) Lost(error)                             {}

// losing is a receiver that records the error of a lost connection.
type losing struct {
	ignoring
	why chan error
}

func (l losing) Lost(err error) { l.why <- err }

// Requests to the endpoint carry the credentials of the URL, because the origin is the same.
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
		c, err := DialPair(t.Context(), 0, o, ignoring{})
		must.Do(t, err, endpoint)
		must.Check(t, c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}")}), endpoint)
		c.Close()
	}
}

func TestPairRequiresEndpointFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   error
	}{
		"a message first": {func(w http.ResponseWriter) { writeEvents(w, "data: {}\n\nevent: endpoint\ndata: /m\n\n") },
			call.ErrInvalidResponse},
		"nothing": {func(w http.ResponseWriter) { writeEvents(w, ":\n\n") }, call.ErrConnectionLost},
		"a page": {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); w.WriteHeader(200) },
			call.ErrInvalidResponse},
		"405": {func(w http.ResponseWriter) { w.WriteHeader(405) }, &call.StatusError{}},
	} {
		p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { tc.answer(w) })
		_, err := DialPair(t.Context(), 0, p.options(t), ignoring{})
		var status *call.StatusError
		if _, ok := tc.want.(*call.StatusError); ok && !errors.As(err, &status) || !ok && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDialPairEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			writeEvents(w, ":\n\n") // a comment, but no endpoint
			<-r.Context().Done()
		})
		ctx, cancel := contextWithTimeout(t, 10*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := DialPair(ctx, 0, p.options(t), ignoring{})
		must.CheckThat(t, errors.Is(err, errGaveUp) && time.Since(begun) == 10*time.Second,
			"%v after %v", err, time.Since(begun))
	})
}

func TestBrokenPairIsErrConnectionLost(t *testing.T) {
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
	must.Do(t, err)
	must.CheckIs(t, c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}"), Method: mcp.MethodPing}),
		ErrSessionGone)
	c.Close()
	c.Close()
	must.CheckIs(t, <-to.why, call.ErrClosed)
	must.CheckIs(t, c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}")}), call.ErrNotSent)

	o.URL += "?cut=1"
	c, err = DialPair(t.Context(), 0, o, to)
	must.Do(t, err)
	must.CheckIs(t, <-to.why, call.ErrConnectionLost)
	c.Close()
}

// A POST request without a response does not delay Close or, after the stream has ended, its caller.
func TestClosePairWithRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			if r.Method == http.MethodGet {
				writeEvents(w, "event: endpoint\ndata: /m\n\n")
			}
			<-r.Context().Done()
		})
		c := must.Get(DialPair(t.Context(), 0, p.options(t), ignoring{}))(t)
		sent := make(chan error)
		go func() { sent <- c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}")}) }()
		synctest.Wait()
		begun := time.Now()
		go func() { c.Close() }()
		if err := <-sent; !errors.Is(err, call.ErrConnectionLost) || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		c.Close()
	})
}

// A server that ends the event stream may reject a message whose POST request is in flight. The client then knows that
// the server has not accepted it.
func TestTheEndOfAPairWaitsForTheStatusOfMessages(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			posted := make(chan struct{})
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				if r.Method == http.MethodGet {
					writeEvents(w, "event: endpoint\ndata: /m\n\n")
					<-posted
					return
				}
				close(posted)
				if silent {
					<-r.Context().Done()
					return
				}
				time.Sleep(sendGrace / 2)
				w.WriteHeader(http.StatusNotFound)
			})
			to := losing{why: make(chan error, 1)}
			c := must.Get(DialPair(t.Context(), 0, p.options(t), to))(t)
			sent := make(chan error, 1)
			go func() {
				sent <- c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}"), Method: mcp.MethodPing})
			}()
			began := time.Now()
			synctest.Wait()
			// The stream has ended but the client does not know yet: the error of the next request must allow it
			// to be repeated.
			must.CheckIs(t, c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}"), Method: mcp.MethodPing}),
				ErrSessionGone, silent, "after the end of the stream")
			lost := <-to.why
			want := sendGrace / 2
			if silent {
				want = sendGrace
			}
			if took := time.Since(began); !errors.Is(lost, call.ErrConnectionLost) || took != want {
				t.Errorf("silent %v: %v after %v, want %v", silent, lost, took, want)
			}
			if err := <-sent; errors.Is(err, ErrSessionGone) == silent || !errors.Is(err, call.ErrConnectionLost) {
				t.Errorf("silent %v: %v", silent, err)
			}
			c.Close()
		})
	}
}

// Rule T5.
func TestEndpointMustHaveTheOriginOfTheStream(t *testing.T) {
	stream := must.Get(url.Parse("https://example.com:8443/a/sse"))(t)
	for endpoint, want := range map[string]string{
		"/messages?session=1":                    "https://example.com:8443/messages?session=1",
		"messages":                               "https://example.com:8443/a/messages",
		"?session=1":                             "https://example.com:8443/a/sse?session=1",
		"https://example.com:8443/m":             "https://example.com:8443/m",
		"https://example.com/m":                  "",
		"http://example.com:8443/m":              "",
		"https://evil.example/m":                 "",
		"//evil.example/m":                       "",
		"https://example.com:8443@evil.example/": "",
		"https://sub.example.com:8443/m":         "",
		"javascript:alert(1)":                    "",
		"file:///etc/passwd":                     "",
		"https://exa mple.com/":                  "",
	} {
		got, err := resolveEndpoint(stream, endpoint)
		must.CheckThat(t, got == want && (err == nil) == (want != ""),
			"%q leads to %q, %v, want %q", endpoint, got, err, want)
	}
}

// If an event is too large, the stream of an HTTP+SSE pair loses only the message in it.
func TestPairSkipsAnEventThatIsTooLarge(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		writeEvents(w, "event: endpoint\ndata: /m\n\n")
		writeEvents(w, `data: {"jsonrpc":"2.0","id":7,"result":{"x":"`+strings.Repeat("x", 2<<20)+`"}}`+"\n\n")
		writeEvents(w, `data: {"jsonrpc":"2.0","id":8,"result":{}}`+"\n\n")
		<-r.Context().Done()
	})
	to := collecting{make(chan string, 2)}
	c := must.Get(DialPair(t.Context(), 0, p.options(t), to))(t)
	defer c.Close()
	must.CheckContains(t, <-to.received, "7 invalid: the message exceeds the limit of")
	must.CheckEqual(t, <-to.received, "8")
}

// If an event is too large, a stream of Streamable HTTP loses only the message in it: a notification does not fail the
// call whose stream it arrives on, and does not end the standalone stream, where the server would send it again.
func TestStreamSkipsANotificationThatIsTooLarge(t *testing.T) {
	tooLarge := `data: {"jsonrpc":"2.0","method":"large","params":{"x":"` + strings.Repeat("x", 2<<20) + `"}}` + "\n\n"
	small := `data: {"jsonrpc":"2.0","method":"small"}` + "\n\n"
	for name, test := range map[string]struct {
		dial    func(*testing.T, Options) *caller
		streams int // number of standalone streams
	}{"modern": {newModern, 0}, "legacy": {newLegacy, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var streams atomic.Int32
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
				switch {
				case handshake(w, r, body):
				case r.Method == http.MethodGet:
					streams.Add(1)
					writeEvents(w, "id: 1\n"+tooLarge+"id: 2\n"+small)
					<-r.Context().Done()
				default:
					writeEvents(w, tooLarge+small+"data: "+resultOf(body)+"\n\n")
				}
			})
			c := test.dial(t, p.options(t))
			got, err := list(t.Context(), c)
			must.CheckEqual(t, got, `{"for":"tools/list"}`, name, err)
			time.Sleep(time.Minute)
			must.CheckEqual(t, int(streams.Load()), test.streams, name)
			must.CheckEqual(t, len(c.received.all()), 1+test.streams, name)
		})
	}
}

type collecting struct{ received chan string }

func (c collecting) Receive(m *jsonrpc.Message) { c.received <- m.ID.String() }
func (c collecting) ReceiveInvalid(m *jsonrpc.Message, err error) {
	c.received <- m.ID.String() + " invalid: " + err.Error()
}
func (collecting) Lost(error) {}
