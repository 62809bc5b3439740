package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Rule U1.
func TestModernRequestsCarryTheirHeaders(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		w.Header().Set("Mcp-Session-Id", theSession) // means nothing in 2026-07-28
		writeJSON(w, resultOf(body))
	})
	o := p.options(t)
	// A header that the program sets in another spelling does not duplicate ours.
	o.Header = http.Header{"authorization": {"Bearer t"}, "accept": {"text/html"}, "mcp-METHOD": {"ping"}}
	c := newModern(t, o)
	for range 2 {
		must.Get(c.call(t.Context(), &outbound.Request{Method: mcp.MethodCallTool,
			Params: []byte(`{"name":"grüß\r\nX: y"}`), Name: "grüß\r\nX: y"}))(t)
	}
	c.Close()
	must.CheckEqual(t, fmt.Sprint(p.asked()), "[POST /mcp tools/call POST /mcp tools/call]")
	r, _ := p.request(1)
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
		must.CheckEqual(t, strings.Join(r.Header.Values(name), "|"), want, name)
	}
}

// Rule U1.
func TestSessionRequestsCarryTheirHeaders(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			writeJSON(w, resultOf(body))
		}
	})
	o := p.options(t)
	o.Header = http.Header{"x-region": {"north"}}
	c := newLegacy(t, o)
	must.Get(list(t.Context(), c))(t)
	c.Close()
	want := []string{"POST /mcp initialize", "POST /mcp notifications/initialized", "GET /mcp", "POST /mcp tools/list",
		"DELETE /mcp"}
	got := p.asked()
	must.Equal(t, fmt.Sprint(got), fmt.Sprint(want), got)
	for i := range want {
		r, _ := p.request(i)
		version, session := r.Header.Get("MCP-Protocol-Version"), r.Header.Get("Mcp-Session-Id")
		accept := map[string]string{"POST": "application/json, text/event-stream", "GET": "text/event-stream"}
		must.CheckEqual(t, r.Header.Get("Accept"), accept[r.Method], want[i])
		if i == 0 && (version != "" || session != "") || i > 0 && (version != "2025-11-25" || session != theSession) {
			t.Errorf("%s: version %q, session %q", want[i], version, session)
		}
		if h := r.Header; h.Get("X-Region") != "north" || h.Get("Mcp-Method") != "" || h.Get("Mcp-Name") != "" {
			t.Errorf("%s: %v", want[i], h)
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
		"twice": func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: "+resultOf(body)+"\n\ndata: "+strings.Replace(resultOf(body), `"for"`, `"again"`, 1)+
				"\n\n")
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
		for era, c := range map[string]*caller{"modern": newModern(t, p.options(t)),
			"legacy": newLegacy(t, p.options(t))} {
			must.CheckEqual(t, must.Get(list(t.Context(), c))(t), `{"for":"tools/list"}`, name, era)
		}
	}
}

// Rules J7, J8: the client accepts batches only in the revision that has them.
func TestClientReadsBatchesOf20250326Only(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	for name, form := range map[string]func(w http.ResponseWriter, body string){
		"a body": func(w http.ResponseWriter, body string) { writeJSON(w, "["+progress+","+resultOf(body)+"]") },
		"an event": func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: ["+progress+","+resultOf(body)+"]\n\n")
		},
		"twice": func(w http.ResponseWriter, body string) {
			writeJSON(w, "["+resultOf(body)+","+strings.Replace(resultOf(body), `"for"`, `"again"`, 1)+"]")
		},
	} {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if !handshake(w, r, body) && !noStream(w, r) {
				form(w, body)
			}
		})
		for _, r := range mcp.Revisions() {
			c := newLegacy(t, p.options(t))
			if r == mcp.V20260728 {
				c = newModern(t, p.options(t))
			}
			c.SetRevision(r)
			got, err := list(t.Context(), c)
			must.CheckEqual(t, err == nil && got == `{"for":"tools/list"}`, r == mcp.V20250326, name, r, got, err)
		}
	}
}

func TestInvalidResponsesAreTypedErrors(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter, body string)
		want   error
	}{
		"accepted like a notification": {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusAccepted) },
			call.ErrInvalidResponse},
		"nothing": {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNoContent) },
			call.ErrInvalidResponse},
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
		"another id": {func(w http.ResponseWriter, _ string) {
			writeJSON(w, `{"jsonrpc":"2.0","id":4711,"result":{}}`)
		}, call.ErrInvalidResponse},
		"only a notification": {func(w http.ResponseWriter, _ string) {
			writeJSON(w, `{"jsonrpc":"2.0","method":"x"}`)
		},
			call.ErrInvalidResponse},
		"an empty batch": {func(w http.ResponseWriter, _ string) { writeJSON(w, `[]`) }, call.ErrInvalidResponse},
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
		"too large an event name": {func(w http.ResponseWriter, _ string) { writeEvents(w, "event: "+large+"\n") },
			call.ErrInvalidResponse},
		"a stream without a response": {func(w http.ResponseWriter, _ string) { writeEvents(w, ": hello\n\n") },
			call.ErrConnectionLost},
		"half a response": {func(w http.ResponseWriter, body string) {
			writeEvents(w, "data: "+resultOf(body)+"\n")
		}, call.ErrConnectionLost},
		"a body that breaks off": {func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Length", "1000")
			writeJSON(w, resultOf(body))
		}, call.ErrConnectionLost},
		"a connection that breaks off": {func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) },
			call.ErrConnectionLost},
		"an error page": {func(w http.ResponseWriter, _ string) {
			http.Error(w, "oops", http.StatusBadGateway)
		}, &call.StatusError{}},
		"a redirect": {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusFound) },
			&call.StatusError{}},
	} {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if !handshake(w, r, body) && !noStream(w, r) {
				tc.answer(w, body)
			}
		})
		for era, c := range map[string]*caller{"modern": newModern(t, p.options(t)),
			"legacy": newLegacy(t, p.options(t))} {
			got, err := list(t.Context(), c)
			var status *call.StatusError
			var reported *jsonrpc.Error
			if _, ok := tc.want.(*call.StatusError); ok {
				must.CheckThat(t, errors.As(err, &status), "%s, %s: %s, %v", name, era, got, err)
			} else if !errors.Is(err, tc.want) {
				t.Errorf("%s, %s: %s, %v", name, era, got, err)
			}
			// Rule J10: the error must not look like one that the server reported.
			must.CheckThat(t, !errors.As(err, &reported),
				"%s, %s: %v looks like an error reported by the server", name, era, err)
		}
	}
}

func TestStatusErrorsContainTheServersError(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		code   int64 // 0: no JSON-RPC error
	}{
		"ours":           {400, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32020,"message":"m"}}`, -32020},
		"unknown method": {404, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"m"}}`, -32601},
		"without an id": {400,
			`{"jsonrpc":"2.0","error":{"code":-32022,"message":"m","data":{"supported":[],"requested":""}}}`, -32022},
		"null id":    {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, -32700},
		"another id": {400, `{"jsonrpc":"2.0","id":4711,"error":{"code":-32020,"message":"m"}}`, 0},
		"a page":     {400, `<html>`, 0},
		"a result":   {400, `{"jsonrpc":"2.0","id":$id,"result":{}}`, 0},
		"too large a body": {400, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32020,"message":"` +
			strings.Repeat("x", maxErrorBody) + `"}}`, 0},
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
		must.CheckThat(t, code == tc.code && err != nil, "%s: %v", name, err)
	}
}

// Rule J3: a response on the stream of another request does not complete a call, even if
// it has the ID of a call in flight.
func TestResponseToAnotherRequestIsDropped(t *testing.T) {
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
		writeEvents(w, `data: {"jsonrpc":"2.0","id":`+id+`,"result":{"forged":1}}`+"\n\n"+
			`data: {"jsonrpc":"2.0","id":`+id+
			`,"error":{}}`+"\n\ndata: "+resultOf(body)+"\n\n")
	})
	c := newModern(t, p.options(t))
	first := make(chan string)
	go func() {
		got, err := list(context.Background(), c)
		first <- fmt.Sprint(got, err)
	}()
	must.Check(t, must.Err(c.call(t.Context(), &outbound.Request{Method: mcp.MethodDiscover})))
	close(release)
	must.CheckEqual(t, <-first, `{"for":"tools/list"}<nil>`)
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
				_, err := c.call(t.Context(), &outbound.Request{Method: mcp.MethodListTools, Timeout: time.Minute})
				var late *call.TimeoutError
				must.CheckThat(t, errors.As(err, &late) && errors.Is(err, context.DeadlineExceeded), "%v", err)
				<-left // a disconnect cancels a modern request
				asked := p.asked()
				last := asked[len(asked)-1]
				must.CheckEqual(t, (last == "POST /mcp notifications/cancelled"), cancelled, asked)
			})
		})
	}
}

// Rule U3: after a 404 in a session, the client sends no more requests for it.
func TestNotFoundInASessionIsErrSessionGone(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	c := newLegacy(t, p.options(t))
	for range 3 {
		must.CheckIs(t, must.Err(list(t.Context(), c)), ErrSessionGone)
	}
	c.Close()
	want := []string{"POST /mcp initialize", "POST /mcp notifications/initialized", "GET /mcp", "POST /mcp tools/list"}
	got := p.asked()
	must.CheckEqual(t, fmt.Sprint(got), fmt.Sprint(want), got)
}

func TestNotFoundWithoutASessionIsAStatusError(t *testing.T) {
	p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusNotFound) })
	_, err := list(t.Context(), newModern(t, p.options(t)))
	var status *call.StatusError
	must.CheckThat(t, errors.As(err, &status) && status.Status == http.StatusNotFound &&
		!errors.Is(err, ErrSessionGone), "%v", err)
}

// Rule U3.
func TestSessionIDThatCouldForgeHeadersIsRejected(t *testing.T) {
	for _, id := range []string{"with space", "a\ttab", "ü", strings.Repeat("x", 1025)} {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			must.CheckThat(t, r.Method != http.MethodDelete && methodOf(body) == mcp.MethodInitialize,
				"%q was used: %s %s", id, r.Method, body)
			w.Header()["Mcp-Session-Id"] = []string{id}
			writeJSON(w,
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},`+
					`"serverInfo":{"name":"s","version":"1"}}}`, idOf(body)))
		})
		must.CheckIs(t, must.Err(dialLegacy(t, p.options(t))), call.ErrInvalidResponse, id)
	}
}

// If no connection can be made, the request was not sent and no connection was lost. Callers
// still find both errors, because a session loses its connection all the same.
func TestRequestWithoutAConnectionWasNotSent(t *testing.T) {
	failed := &url.Error{Op: "Post", URL: "http://127.0.0.1/",
		Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}
	err := sendError(t.Context(), failed)
	for _, want := range []error{call.ErrNotSent, call.ErrConnectionLost, syscall.ECONNREFUSED} {
		must.CheckIs(t, err, want)
	}
	got := err.Error()
	must.CheckThat(t, strings.HasPrefix(got, "request not sent: ") && !strings.Contains(got, "connection lost") &&
		strings.Contains(got, "connection refused"), "%v", got)
	dial := new(net.OpError)
	must.CheckThat(t, errors.As(err, &dial), "%v has no *net.OpError", err)
}

// keeper keeps the parameters of notifications, as a handler of an extension may.
type keeper struct {
	outbound.Receiver
	kept [][]byte
}

func (k *keeper) Receive(m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Notification {
		k.kept = append(k.kept, m.Raw)
	}
	k.Receiver.Receive(m)
}

// A response that is forwarded gives up its memory, which the other messages of its batch still use.
func TestMessagesOfABatchKeepTheirMemoryWhenTheResponseIsForwarded(t *testing.T) {
	const params = `{"level":"info","data":"kept"}`
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			writeJSON(w,
				fmt.Sprintf(`[{"jsonrpc":"2.0","method":"notifications/message","params":%s},{"jsonrpc":"2.0",`+
					`"id":%s,"result":{"content":[],"x":%q}}]`, params, idOf(body), strings.Repeat("x", 32<<10)))
		}
	})
	c := newLegacy(t, p.options(t))
	c.SetRevision(mcp.V20250326)
	k := &keeper{Receiver: c.received.Receiver}
	c.received.Receiver = k
	forwarded := &rpc.Call{Call: *call.New(call.Description{Revision: mcp.V20250326})}
	f := rpc.ForwardingOf(rpc.NewContext(t.Context(), forwarded))
	raw, err := c.call(t.Context(),
		&outbound.Request{Method: mcp.MethodCallTool, Params: []byte(`{"name":"t"}`), Forwarding: f})
	must.Do(t, err)
	forwarded.AppendForwarded(bytes.Repeat([]byte("h"), 200),
		&mcp.CallToolResult{ResultBase: mcp.ResultBase{Source: raw}}, nil)
	must.CheckThat(t, len(k.kept) == 1 && string(k.kept[0]) == params,
		"the parameters of the notification are %q, want %s", k.kept, params)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
