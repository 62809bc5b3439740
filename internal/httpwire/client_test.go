package httpwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
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

func TestU1ModernRequestsCarryTheirHeaders(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, body string) { writeJSON(w, resultOf(body)) })
	o := p.options(t)
	// A header that the program sets in another spelling does not duplicate ours.
	o.Header = http.Header{"authorization": {"Bearer t"}, "accept": {"text/html"}, "mcp-METHOD": {"ping"}}
	c := newModern(t, o)
	if _, err := c.call(t.Context(), &rpc.Request{Method: mcp.MethodCallTool, Params: []byte(`{"name":"grüß\r\nX: y"}`), Name: "grüß\r\nX: y"}); err != nil {
		t.Fatal(err)
	}
	r, _ := p.request(0)
	for name, want := range map[string]string{
		"MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method":           "tools/call",
		"Mcp-Name":             "=?base64?Z3LDvMOfDQpYOiB5?=",
		"Accept":               "application/json, text/event-stream",
		"Content-Type":         "application/json",
		"Authorization":        "Bearer t",
		"X":                    "",
		"Mcp-Session-Id":       "",
	} {
		if got := strings.Join(r.Header.Values(name), "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestU1SessionRequestsCarryTheirHeaders(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			writeJSON(w, resultOf(body))
		}
	})
	c := newLegacy(t, p.options(t))
	if _, err := list(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Close()
	want := []string{"POST /mcp initialize", "POST /mcp notifications/initialized", "GET /mcp", "POST /mcp tools/list", "DELETE /mcp"}
	if got := p.asked(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		r, _ := p.request(i)
		version, session := r.Header.Get("MCP-Protocol-Version"), r.Header.Get("Mcp-Session-Id")
		if i == 0 && (version != "" || session != "") || i > 0 && (version != "2025-11-25" || session != theSession) {
			t.Errorf("%s: version %q, session %q", want[i], version, session)
		}
	}
}

func TestClientReadsEachFormOfResponse(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	forms := map[string]func(w http.ResponseWriter, body string){
		"JSON": func(w http.ResponseWriter, body string) { writeJSON(w, resultOf(body)) },
		"JSON with a type": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, resultOf(body))
		},
		"JSON in chunks": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Type", "application/json")
			for _, c := range []byte(resultOf(body)) {
				_, _ = w.Write([]byte{c})
				w.(http.Flusher).Flush()
			}
		},
		"events": func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: "+progress+"\n\ndata: "+resultOf(body)+"\n\n")
		},
		"events with CR": func(w http.ResponseWriter, body string) {
			writeEvents(w, "event: message\rdata: "+resultOf(body)+"\r\r")
		},
		"events of other names": func(w http.ResponseWriter, body string) {
			writeEvents(w, "event: ping\ndata: x\n\ndata: "+resultOf(body)+"\n\n")
		},
		"after nonsense": func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: nonsense\n\ndata: {}\n\ndata: "+resultOf(body)+"\n\n")
		},
		"after a priming event": func(w http.ResponseWriter, body string) {
			writeEvents(w, "id: 1\nretry: 10\ndata:\n\ndata: "+resultOf(body)+"\n\n")
		},
		"a batch, 2025-03-26": func(w http.ResponseWriter, body string) { writeJSON(w, "["+progress+","+resultOf(body)+"]") },
		"a batch, as an event": func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: ["+progress+","+resultOf(body)+"]\n\n")
		},
		"twice": func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: "+resultOf(body)+"\n\ndata: "+strings.Replace(resultOf(body), `"for"`, `"again"`, 1)+"\n\n")
		},
		"twice, in a batch": func(w http.ResponseWriter, body string) {
			writeJSON(w, "["+resultOf(body)+","+strings.Replace(resultOf(body), `"for"`, `"again"`, 1)+"]")
		},
		"after one to another": func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: "+`{"jsonrpc":"2.0","id":"1","result":{}}`+"\n\ndata: "+resultOf(body)+"\n\n")
		},
		"after a request": func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: "+`{"jsonrpc":"2.0","id":77,"method":"ping"}`+"\n\ndata: "+resultOf(body)+"\n\n")
		},
		"with a status of its own": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(202)
			_, _ = io.WriteString(w, resultOf(body))
		},
	}
	for name, form := range forms {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case handshake(w, r, body), noStream(w, r):
			case idOf(body) == "77" || methodOf(body) == "":
				w.WriteHeader(http.StatusAccepted)
			default:
				form(w, body)
			}
		})
		for era, c := range map[string]*caller{"modern": newModern(t, p.options(t)), "legacy": newLegacy(t, p.options(t))} {
			if got, err := list(t.Context(), c); err != nil || got != `{"for":"tools/list"}` {
				t.Errorf("%s, %s: %s, %v", name, era, got, err)
			}
		}
	}
}

func TestInvalidResponsesAreTypedErrors(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter, body string)
		want   error
	}{
		"accepted like a notification": {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusAccepted) }, call.ErrInvalidResponse},
		"nothing":                      {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNoContent) }, call.ErrInvalidResponse},
		"no type": {func(w http.ResponseWriter, body string) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, resultOf(body))
		}, call.ErrInvalidResponse},
		"a page": {func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, resultOf(body))
		}, call.ErrInvalidResponse},
		"no JSON":       {func(w http.ResponseWriter, _ string) { writeJSON(w, "hello") }, call.ErrInvalidResponse},
		"an empty body": {func(w http.ResponseWriter, _ string) { writeJSON(w, "") }, call.ErrInvalidResponse},
		"not UTF-8": {func(w http.ResponseWriter, body string) {
			writeJSON(w, strings.Replace(resultOf(body), "tools", "\xff", 1))
		}, call.ErrInvalidResponse},
		"duplicate members": {func(w http.ResponseWriter, body string) {
			writeJSON(w, strings.Replace(resultOf(body), `"result"`, `"result":{},"result"`, 1))
		}, call.ErrInvalidResponse},
		"both result and error": {func(w http.ResponseWriter, body string) {
			writeJSON(w, strings.Replace(resultOf(body), `"result"`, `"error":{"code":1,"message":""},"result"`, 1))
		}, call.ErrInvalidResponse},
		"a result that is no object": {func(w http.ResponseWriter, body string) {
			writeJSON(w, `{"jsonrpc":"2.0","id":`+idOf(body)+`,"result":[]}`)
		}, call.ErrInvalidResponse},
		"an error without a code": {func(w http.ResponseWriter, body string) {
			writeJSON(w, `{"jsonrpc":"2.0","id":`+idOf(body)+`,"error":{"message":"x"}}`)
		}, call.ErrInvalidResponse},
		"the id as a string": {func(w http.ResponseWriter, body string) {
			writeJSON(w, `{"jsonrpc":"2.0","id":"`+idOf(body)+`","result":{}}`)
		}, call.ErrInvalidResponse},
		"another id":          {func(w http.ResponseWriter, _ string) { writeJSON(w, `{"jsonrpc":"2.0","id":4711,"result":{}}`) }, call.ErrInvalidResponse},
		"only a notification": {func(w http.ResponseWriter, _ string) { writeJSON(w, `{"jsonrpc":"2.0","method":"x"}`) }, call.ErrInvalidResponse},
		"an empty batch":      {func(w http.ResponseWriter, _ string) { writeJSON(w, `[]`) }, call.ErrInvalidResponse},
		"too large a body": {func(w http.ResponseWriter, body string) {
			writeJSON(w, strings.Replace(resultOf(body), "tools", large, 1))
		}, call.ErrInvalidResponse},
		"too large a body that says so": {func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Length", strconv.Itoa(700<<20))
			writeJSON(w, "{")
		}, call.ErrInvalidResponse},
		"too large an event": {func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: "+strings.Replace(resultOf(body), "tools", large, 1)+"\n\n")
		}, call.ErrInvalidResponse},
		"too large an event name":     {func(w http.ResponseWriter, _ string) { writeEvents(w, "event: "+large+"\n") }, call.ErrInvalidResponse},
		"a stream without a response": {func(w http.ResponseWriter, _ string) { writeEvents(w, ": hello\n\n") }, call.ErrConnectionLost},
		"half a response":             {func(w http.ResponseWriter, body string) { writeEvents(w, "data: "+resultOf(body)+"\n") }, call.ErrConnectionLost},
		"a body that breaks off": {func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Length", "1000")
			writeJSON(w, resultOf(body))
		}, call.ErrConnectionLost},
		"a connection that breaks off": {func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) }, call.ErrConnectionLost},
		"an error page":                {func(w http.ResponseWriter, _ string) { http.Error(w, "oops", http.StatusBadGateway) }, &call.StatusError{}},
		"a redirect":                   {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusFound) }, &call.StatusError{}},
	} {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if !handshake(w, r, body) && !noStream(w, r) {
				tc.answer(w, body)
			}
		})
		for era, c := range map[string]*caller{"modern": newModern(t, p.options(t)), "legacy": newLegacy(t, p.options(t))} {
			got, err := list(t.Context(), c)
			var status *call.StatusError
			var reported *jsonrpc.Error
			if _, ok := tc.want.(*call.StatusError); ok {
				if !errors.As(err, &status) {
					t.Errorf("%s, %s: %s, %v", name, era, got, err)
				}
			} else if !errors.Is(err, tc.want) {
				t.Errorf("%s, %s: %s, %v", name, era, got, err)
			}
			// J10: the error must not look like one that the server reported.
			if errors.As(err, &reported) {
				t.Errorf("%s, %s: %v looks like an error reported by the server", name, era, err)
			}
		}
	}
}

func TestStatusErrorsContainTheServersError(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		code   int64 // 0: no JSON-RPC error
	}{
		"ours":             {400, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32020,"message":"m"}}`, -32020},
		"unknown method":   {404, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"m"}}`, -32601},
		"without an id":    {400, `{"jsonrpc":"2.0","error":{"code":-32022,"message":"m","data":{"supported":[],"requested":""}}}`, -32022},
		"null id":          {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, -32700},
		"another id":       {400, `{"jsonrpc":"2.0","id":4711,"error":{"code":-32020,"message":"m"}}`, 0},
		"a page":           {400, `<html>`, 0},
		"a result":         {400, `{"jsonrpc":"2.0","id":$id,"result":{}}`, 0},
		"too large a body": {400, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32020,"message":"` + strings.Repeat("x", maxErrorBody) + `"}}`, 0},
	} {
		p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, body string) {
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, strings.ReplaceAll(tc.body, "$id", idOf(body)))
		})
		_, err := list(t.Context(), newModern(t, p.options(t)))
		var reported *jsonrpc.Error
		var code int64
		if errors.As(err, &reported) {
			code = reported.Code
		}
		if code != tc.code || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// J3, I4: a response on the stream of another request does not complete a call, even if
// its id is that of a call in flight.
func TestJ3ResponseToAnotherRequestIsDropped(t *testing.T) {
	waiting := make(chan string, 1)
	release := make(chan struct{})
	p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		if methodOf(body) == mcp.MethodListTools {
			waiting <- idOf(body)
			<-release
			writeJSON(w, resultOf(body))
			return
		}
		id := <-waiting
		writeEvents(w, `data: {"jsonrpc":"2.0","id":`+id+`,"result":{"forged":1}}`+"\n\n"+`data: {"jsonrpc":"2.0","id":`+id+`,"error":{}}`+"\n\ndata: "+resultOf(body)+"\n\n")
	})
	c := newModern(t, p.options(t))
	first := make(chan string)
	go func() {
		got, err := list(context.Background(), c)
		first <- fmt.Sprint(got, err)
	}()
	if _, err := c.call(t.Context(), &rpc.Request{Method: mcp.MethodDiscover}); err != nil {
		t.Error(err)
	}
	close(release)
	if got := <-first; got != `{"for":"tools/list"}<nil>` {
		t.Errorf("%s", got)
	}
}

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
			if d := time.Since(begun); d > most {
				t.Errorf("%s took %v", what, d)
			}
			begun = time.Now()
		}
		c := newLegacy(t, o)
		took("the handshake", 50*time.Millisecond)
		if _, err := list(t.Context(), c); err != nil {
			t.Error(err)
		}
		took("a call", 50*time.Millisecond)
		if _, err := c.call(t.Context(), &rpc.Request{Method: mcp.MethodPing}); err == nil {
			t.Error("no error")
		}
		took("an error", errorBodyTimeout)
		c.Close()
		took("Close", 50*time.Millisecond)
		close(done)
	})
}

func TestStreamWithoutResponseEndsWithTheTimeout(t *testing.T) {
	for era, cancelled := range map[string]bool{"modern": false, "legacy": true} {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := make(chan struct{})
				p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
					switch {
					case handshake(w, r, body), noStream(w, r):
					case methodOf(body) == mcp.NotificationCancelled:
						w.WriteHeader(http.StatusAccepted)
					default:
						for {
							writeEvents(w, ":\n\n")
							select {
							case <-time.After(time.Second):
							case <-r.Context().Done():
								close(left)
								return
							}
						}
					}
				})
				var c *caller
				if cancelled {
					c = newLegacy(t, p.options(t))
				} else {
					c = newModern(t, p.options(t))
				}
				_, err := c.call(t.Context(), &rpc.Request{Method: mcp.MethodListTools, Timeout: time.Minute})
				var late *call.TimeoutError
				if !errors.As(err, &late) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				<-left // a disconnect cancels a modern request
				asked := p.asked()
				last := asked[len(asked)-1]
				if (last == "POST /mcp notifications/cancelled") != cancelled {
					t.Errorf("%q", asked)
				}
			})
		})
	}
}

// U3: after a 404 in a session, the client sends no more requests for it.
func TestU3NotFoundInASessionIsErrSessionGone(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	c := newLegacy(t, p.options(t))
	for range 3 {
		if _, err := list(t.Context(), c); !errors.Is(err, ErrSessionGone) {
			t.Errorf("%v", err)
		}
	}
	c.Close()
	want := []string{"POST /mcp initialize", "POST /mcp notifications/initialized", "GET /mcp", "POST /mcp tools/list"}
	if got := p.asked(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q", got)
	}
}

func TestNotFoundWithoutASessionIsAStatusError(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusNotFound) })
	_, err := list(t.Context(), newModern(t, p.options(t)))
	var status *call.StatusError
	if !errors.As(err, &status) || status.Status != http.StatusNotFound || errors.Is(err, ErrSessionGone) {
		t.Errorf("%v", err)
	}
}

func TestU3SessionIDThatCouldForgeHeadersIsRejected(t *testing.T) {
	for _, id := range []string{"with space", "a\ttab", "ü", strings.Repeat("x", 1025)} {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if r.Method == http.MethodDelete || methodOf(body) != mcp.MethodInitialize {
				t.Errorf("%q was used: %s %s", id, r.Method, body)
			}
			w.Header()["Mcp-Session-Id"] = []string{id}
			writeJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, idOf(body)))
		})
		if _, err := dialLegacy(t, p.options(t)); !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}

// U3, R6: logs and errors contain neither the session id nor secrets of the URL or headers.
func TestU3SecretsAreNotLogged(t *testing.T) {
	const token, query = "the-secret-token", "the-secret-query"
	var logged buffer
	answers := []func(w http.ResponseWriter, body string){
		func(w http.ResponseWriter, _ string) { http.Error(w, "no", http.StatusInternalServerError) },
		func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ string) {
			w.Header().Set("Location", "http://other/?"+query)
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, _ string) { writeJSON(w, `{"jsonrpc":"2.0","id":4711,"result":{}}`) },
		func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) },
	}
	turn := 0
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			answers[turn](w, body)
		}
	})
	o := p.options(t)
	o.URL += "?key=" + query
	o.Header = http.Header{"Authorization": {"Bearer " + token}}
	o.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := newLegacy(t, o)
	var text strings.Builder
	for turn = range answers {
		_, err := list(t.Context(), c)
		fmt.Fprintln(&text, err)
	}
	p.net.Close()
	c.http.CloseIdleConnections()
	_, err := newModernError(t, o)
	fmt.Fprintln(&text, err)
	c.Close()
	for _, secret := range []string{theSession, token, query} {
		if all := logged.String() + text.String(); strings.Contains(all, secret) {
			t.Errorf("%q is in: %s", secret, all)
		}
	}
}

func newModernError(t *testing.T, o Options) (string, error) {
	return list(t.Context(), newModern(t, o))
}

func TestFailedConnectionIsErrNotSent(t *testing.T) {
	p := newPeer(t, nil)
	p.net.Close()
	_, err := list(t.Context(), newModern(t, p.options(t)))
	if !errors.Is(err, call.ErrNotSent) || !errors.Is(err, call.ErrConnectionLost) {
		t.Errorf("%v", err)
	}
}

func TestRedirectsWithinTheOriginAreFollowed(t *testing.T) {
	for name, tc := range map[string]struct {
		status, hops int
		ok           bool
	}{
		"one":                     {http.StatusTemporaryRedirect, 1, true},
		"three":                   {http.StatusPermanentRedirect, 3, true},
		"four":                    {http.StatusTemporaryRedirect, 4, false},
		"that lose the body, 301": {http.StatusMovedPermanently, 1, false},
		"that lose the body, 302": {http.StatusFound, 1, false},
		"that lose the body, 303": {http.StatusSeeOther, 1, false},
	} {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			n, _ := strconv.Atoi(r.URL.Query().Get("n"))
			if n < tc.hops {
				w.Header().Set("Location", "/mcp/"+strconv.Itoa(n+1)+"?n="+strconv.Itoa(n+1))
				w.WriteHeader(tc.status)
				return
			}
			if r.Header.Get("Authorization") != "Bearer t" || r.Header.Get("Mcp-Method") != mcp.MethodListTools {
				t.Errorf("%s: headers %v", name, r.Header)
			}
			writeJSON(w, resultOf(body))
		})
		o := p.options(t)
		o.Header = http.Header{"Authorization": {"Bearer t"}}
		_, err := list(t.Context(), newModern(t, o))
		var status *call.StatusError
		if tc.ok && err != nil || !tc.ok && (!errors.As(err, &status) || status.Status != tc.status) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The client sends no POST, GET or DELETE request to another origin, whatever the server
// answers.
func TestU3U8RedirectsToAnotherOriginAreNotFollowed(t *testing.T) {
	sentinel := newPeer(t, func(_ http.ResponseWriter, r *http.Request, body string) {
		t.Errorf("another origin received: %s %s %v %s", r.Method, r.URL, r.Header, body)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"http://other/mcp", "//other/mcp", "https://server/mcp", "http://server:8080/mcp", "http://user@other/mcp", "http://server.other/mcp"} {
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
				if methodOf(body) == mcp.MethodInitialize || methodOf(body) == mcp.NotificationInitialized {
					handshake(w, r, body)
					return
				}
				w.Header().Set("Location", location)
				w.WriteHeader(status)
			})
			o := p.options(t)
			home := o.HTTP.Transport
			o.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Scheme == "http" && r.URL.Host == "server" {
					return home.RoundTrip(r)
				}
				return sentinel.http.Transport.RoundTrip(r)
			})}
			o.Header = http.Header{"Authorization": {"Bearer t"}}
			c := newLegacy(t, o)
			var statusErr *call.StatusError
			if _, err := list(t.Context(), c); !errors.As(err, &statusErr) || statusErr.Status != status {
				t.Errorf("%d to %s: %v", status, location, err)
			}
			c.Close()
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
			req := &rpc.Request{Method: mcp.MethodListTools}
			if i%2 == 0 {
				req.OnProgress = func(rpc.Progress) {}
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
		if err := <-failed; !errors.Is(err, call.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	closing.Wait()
	c.Close()
	if err := c.Send(t.Context(), &rpc.Outgoing{Message: []byte("{}")}); !errors.Is(err, call.ErrClosed) || !errors.Is(err, call.ErrNotSent) {
		t.Errorf("after Close: %v", err)
	}
	deleted := 0
	for _, line := range p.asked() {
		if line == "DELETE /mcp" {
			deleted++
		}
		if strings.Contains(line, "cancelled") {
			t.Errorf("%s: the end of the session cancels", line)
		}
	}
	if deleted != 1 {
		t.Errorf("%d times DELETE", deleted)
	}
}

// I13: Close returns within a bounded time, whatever the server does.
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
		if took := time.Since(begun); took > endSessionTimeout {
			t.Errorf("%v", took)
		}
	})
}

// A response of 700 MB is rejected before it is in memory.
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
		if _, err := list(t.Context(), newModern(t, p.options(t))); !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("%s: %v", name, err)
		}
		if n := <-sent; n > 8<<20 {
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
