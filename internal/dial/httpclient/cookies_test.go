package httpclient

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
)

// A session keeps the cookies of its server, because load balancers use them to find the replica. 2026-07-28
// needs none.
func TestSessionKeepsTheCookiesOfItsServer(t *testing.T) {
	var got []string
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		got = append(got, r.Header.Get("Cookie"))
		for i := range 100 { // their number is limited
			http.SetCookie(w, &http.Cookie{Name: fmt.Sprint("c", i), Value: "v", Path: "/"})
		}
		http.SetCookie(w, &http.Cookie{Name: "c1", MaxAge: -1, Path: "/"})
		http.SetCookie(w, &http.Cookie{Name: "c2", Value: "other", Domain: "other.example", Path: "/"})
		http.SetCookie(w, &http.Cookie{Name: "c3", Value: strings.Repeat("x", 5000), Path: "/"})
		if !handshake(w, r, body) && !noStream(w, r) {
			writeJSON(w, resultOf(body))
		}
	})
	for era, c := range map[string]*caller{"modern": newModern(t, p.options(t)), "legacy": newLegacy(t, p.options(t))} {
		got = nil
		for range 2 {
			must.Do(t, must.Err(list(t.Context(), c)))
		}
		last := got[len(got)-1]
		if era == "modern" {
			must.CheckEqual(t, strings.Join(got, ""), "")
		} else if n := strings.Count(last, "=v"); n != 49 || !strings.Contains(last, "c0=v") ||
			strings.Contains(last, "c1=") || strings.Contains(last, "other") {
			t.Errorf("%d cookies: %s", n, last)
		}
	}
}

func TestPairKeepsTheCookiesOfItsServer(t *testing.T) {
	got := make(chan string, 1)
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.Method == http.MethodPost {
			got <- r.Header.Get("Cookie")
			w.WriteHeader(http.StatusAccepted)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "replica", Value: "1"})
		writeEvents(w, "event: endpoint\ndata: /m\n\n")
		<-r.Context().Done()
	})
	c := must.Get(DialPair(t.Context(), 0, p.options(t), ignoring{}))(t)
	defer c.Close()
	must.Do(t, c.Send(t.Context(), &outbound.Outgoing{Message: []byte(`{"jsonrpc":"2.0","method":"m"}`)}))
	must.CheckEqual(t, <-got, "replica=1")
}

// A cookie of the configuration wins over a cookie of the server, and other origins receive no cookie.
func TestCookiesStayWithinTheirOrigin(t *testing.T) {
	const server = "http://server.example/mcp"
	var got []string
	o := &Options{URL: server}
	c := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		got = append(got, r.URL.Host+" "+r.Header.Get("Cookie"))
		return &http.Response{StatusCode: 200, Body: http.NoBody,
			Header: http.Header{"Set-Cookie": {"lb=server; Domain=example; Path=/", "a=server"}}}, nil
	})}
	o.keepCookies(c)
	for _, to := range []string{server, server, "http://server.example:81/mcp", "https://server.example/mcp",
		"http://sub.server.example/mcp"} {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, to, nil))(t)
		req.Header.Set("Cookie", "a=mine")
		resp := must.Get(c.Do(req))(t)
		resp.Body.Close()
	}
	must.CheckEqual(t, strings.Join(got, "; "), "server.example a=mine; server.example a=mine; lb=server; "+
		"server.example:81 a=mine; server.example a=mine; sub.server.example a=mine")
}

// Some servers compress responses although the client did not ask for it. If the client cannot read a coding, the
// error names it.
func TestCodedResponsesAreReadOrNamed(t *testing.T) {
	coded := func(open func(io.Writer) io.WriteCloser) func([]byte) []byte {
		return func(body []byte) []byte {
			var b bytes.Buffer
			w := open(&b)
			_, _ = w.Write(body)
			w.Close()
			return b.Bytes()
		}
	}
	raw := coded(func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 9); return f })
	zipped := coded(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	same := func(b []byte) []byte { return b }
	for name, tc := range map[string]struct {
		coding string
		encode func([]byte) []byte
		fails  string
	}{
		"deflate":      {"deflate", coded(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }), ""},
		"raw deflate":  {"Deflate", raw, ""},
		"gzip":         {"gzip", zipped, ""},
		"x-gzip":       {"x-gzip", zipped, ""},
		"identity":     {"identity", same, ""},
		"br":           {"br", same, `Content-Encoding "br"`},
		"two":          {"deflate, br", same, `Content-Encoding "deflate, br"`},
		"not a coding": {"deflate", func([]byte) []byte { return []byte("x\x9c{}") }, ""},
	} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
				response := resultOf(body)
				if kind == "text/event-stream" {
					response = "data: " + response + "\n\n"
				}
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Content-Encoding", tc.coding)
				_, _ = w.Write(tc.encode([]byte(response)))
			})
			_, err := list(t.Context(), newModern(t, p.options(t)))
			switch {
			case name == "not a coding":
				must.CheckThat(t, err != nil, "%s, %s: no error", name, kind)
			case tc.fails == "" && err != nil, tc.fails != "" && (!errors.Is(err, call.ErrInvalidResponse) ||
				!strings.Contains(err.Error(), tc.fails)):
				t.Errorf("%s, %s: %v", name, kind, err)
			}
		}
	}
}
