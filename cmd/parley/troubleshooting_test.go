package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// misbehaves NAME KIND sets $NAME to the URL of a server that ends connections (close), redirects, responds with a page
// (html) or a status, chooses an unknown revision, names an authorization server in a private network, has a certificate
// of an unknown issuer (tls), or one for other names (name), whose issuer is in the file cert.pem.
func misbehaves(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: misbehaves NAME close|redirect|html|revision|private|STATUS|tls|name")
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch args[1] {
		case "close":
			panic(http.ErrAbortHandler)
		case "redirect":
			http.Redirect(w, req, "http://other.example/mcp", http.StatusMovedPermanently)
		case "html":
			w.Header().Set("Content-Type", "text/html")
		case "private":
			if metadata := "http://" + req.Host + "/metadata"; req.URL.Path == "/metadata" {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"resource":"http://%s/mcp","authorization_servers":["https://10.0.0.1"]}`, req.Host)
			} else {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+metadata+`"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		case "revision":
			var request struct{ ID json.RawMessage }
			ts.Check(json.NewDecoder(req.Body).Decode(&request))
			w.Header().Set("Content-Type", "application/json")
			const result = `{"protocolVersion":"2023-01-01","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, result)
		case "tls", "name":
		default:
			status, err := strconv.Atoi(args[1])
			ts.Check(err)
			w.WriteHeader(status)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if args[1] == "tls" || args[1] == "name" {
		s.StartTLS()
	} else {
		s.Start()
	}
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL+"/mcp")
	if args[1] == "name" {
		ts.Setenv(args[0], strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/mcp")
		certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		ts.Check(os.WriteFile(ts.MkAbs("cert.pem"), certificate, 0o600))
	}
}

var expectation = regexp.MustCompile(`(?m)^(?:stderr|stdout|await|grep) .*$`)

// Each heading of the pages is a text that a script, or the test of the explanations, expects of the program.
func TestHeadingsOfTroubleshootingAreErrorsOfTheProgram(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var expected []string
	for _, name := range append(scripts, "internal/failure/explain_test.go") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := expectation.FindAllString(string(text), -1)
		if filepath.Ext(name) == ".go" {
			lines = strings.Split(string(text), "\n")
		}
		for _, line := range lines {
			expected = append(expected, strings.ReplaceAll(line, `\`, ""))
		}
	}
	headings := 0
	for _, name := range []string{"docs/program/troubleshooting.md", "docs/program/troubleshooting-up.md"} {
		for _, line := range readPage(t, name).prose {
			h := heading.FindStringSubmatch(line)
			if h == nil || h[1] != "##" {
				continue
			}
			headings++
			pattern := regexp.MustCompile(strings.NewReplacer("NAME", ".*", ` N\b`, " .*").Replace(regexp.QuoteMeta(h[2]) + `\b`))
			if !slices.ContainsFunc(expected, pattern.MatchString) {
				t.Errorf("%s: no script expects the text of the heading %q", name, h[2])
			}
		}
	}
	if headings < 40 {
		t.Errorf("%d headings", headings)
	}
}
