package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

const page = "https://app.example.com"

func sharing() *server.Server {
	return &server.Server{AllowedOrigins: []string{page}, Logger: slog.New(slog.DiscardHandler)}
}

func preflight(s *server.Server, origin, headers string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodOptions, "http://localhost/", nil)
	r.Header.Set("Origin", origin)
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", headers)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// Rule T1: a preflight of an allowed origin gets the allowed methods and headers only.
func TestPreflightsOfAllowedOriginsAreAnswered(t *testing.T) {
	w := preflight(sharing(), page, "content-type, Mcp-Method,mcp-param-region, x-other, mcp-param-a b,authorization")
	h := w.Result().Header
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin":      page,
		"Access-Control-Allow-Methods":     "POST, GET, DELETE",
		"Access-Control-Allow-Headers":     "content-type, mcp-method, mcp-param-region, authorization",
		"Access-Control-Max-Age":           "600",
		"Access-Control-Allow-Credentials": "",
		"Vary":                             "Origin, Access-Control-Request-Headers",
	} {
		if got := strings.Join(h.Values(name), ", "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if w.Code != http.StatusNoContent || w.Body.Len() > 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Rules T1, T2: other origins get no CORS headers, whether the request is accepted or not.
func TestPreflightsOfOtherOriginsAreNotAnswered(t *testing.T) {
	for origin, want := range map[string]int{
		"https://evil.example": 403, "null": 403, "https://app.example.com.evil.example": 403, "http://app.example.com": 403,
		"http://localhost:3000": 403, // a page of this machine, which has not been named
	} {
		w := preflight(sharing(), origin, "content-type")
		if w.Code != want || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, %v", origin, w.Code, w.Header())
		}
	}
	if w := preflight(&server.Server{Logger: slog.New(slog.DiscardHandler)}, "http://localhost:3000", ""); w.Code != 403 || w.Header().Get("Vary") != "" {
		t.Errorf("without origins: %d, %v", w.Code, w.Header())
	}
}

// Rule T1: pages of an allowed origin can read responses, including errors.
func TestAllowedOriginsCanReadResponses(t *testing.T) {
	ask := func(s *server.Server, origin, method, body string) http.Header {
		r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", mcp.MethodDiscover)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result().Header
	}
	for _, body := range []string{request(1, mcp.MethodDiscover, ""), "{"} {
		h := ask(sharing(), page, "POST", body)
		if h.Get("Access-Control-Allow-Origin") != page || h.Get("Vary") != "Origin" ||
			!strings.Contains(h.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
			t.Errorf("%s: %v", body, h)
		}
	}
	if h := ask(sharing(), "", "POST", request(1, mcp.MethodDiscover, "")); h.Get("Access-Control-Allow-Origin") != "" || h.Get("Vary") != "Origin" {
		t.Errorf("without an origin: %v", h)
	}
	if h := ask(sharing(), "http://localhost", "OPTIONS", ""); h.Get("Access-Control-Allow-Origin") != "" || h.Get("Allow") == "" {
		t.Errorf("OPTIONS without a preflight: %v", h)
	}
}
