package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// registry VARIABLE DIR serves the responses of a registry in a directory, and sets the variable to its URL. The list of
// servers is list.json, and the latest version of the server a/b is a_b.json.
func serveRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: registry VARIABLE DIR")
	}
	dir := ts.MkAbs(args[1])
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := "/list.json"
		if r.URL.Path != "/v0.1/servers" {
			name, _ := strings.CutPrefix(r.URL.EscapedPath(), "/v0.1/servers/")
			name, _ = strings.CutSuffix(name, "/versions/latest")
			path = "/" + strings.ReplaceAll(name, "%2F", "_") + ".json"
		}
		body, err := os.ReadFile(dir + path)
		if err != nil || strings.Contains(path, "..") {
			w.WriteHeader(http.StatusNotFound)
			body = []byte(`{"title": "Not Found", "status": 404, "detail": "Server not found"}`)
		}
		_, _ = w.Write(body) // the client sees an error
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}
