//go:build browser

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// npmModules has the packages of the interop tests. One is @modelcontextprotocol/ext-apps, the library of MCP Apps for
// hosts and pages.
const npmModules = "../../.tools/interop/node_modules"

// A host that uses the library shows a page of a server in Go, in the frame of the inspector.
func TestBrowserShowsPagesInAHostOfTheLibrary(t *testing.T) {
	s := newStage(t)
	csp := apps.CSP{Connect: []string{"https://api.example.com"}}
	apps.AddPage(s.Server, apps.Page{URI: "ui://stage/page", Name: "page", CSP: csp}, appHTML(t, "npm/page.html"))
	server.AddTool(s.Server, apps.Show(mcp.Tool{Name: "page"}, "ui://stage/page"),
		func(context.Context, struct{}) (string, error) { return "the result", nil })
	sandbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", csp.Policy())
		http.ServeFile(w, r, "internal/inspect/web/static/"+strings.TrimPrefix(r.URL.Path, "/"))
	}))
	t.Cleanup(sandbox.Close)
	mux := http.NewServeMux()
	mux.Handle("/node_modules/", http.StripPrefix("/node_modules/", http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/javascript") // also for .mjs
			http.ServeFile(w, r, npmModules+"/"+r.URL.Path)
		})))
	mux.Handle("/mcp", s.Server)
	html := appHTML(t, "npm/host.html", "SANDBOX", sandbox.URL+"/frame.html")
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(html)) })
	host := httptest.NewServer(mux)
	t.Cleanup(host.Close)
	tab := browser(t)
	must.Do(t, tab.navigate(host.URL))
	must.Do(t, tab.shows(regexp.MustCompile(`(?s)page: ui://stage/page, true, {"csp":{"connectDomains":`+
		`\["https://api.example.com"\]}}.*input {'arguments':{'text':'input'}}.*`+
		`result the result, after ui/notifications/tool-input,ui/notifications/tool-result.*note a note.*`+
		`called echo from the page.*ends: the test ends.*teardown: {}`)))
}

// The inspector shows a page that uses the library.
func TestBrowserShowsAPageOfTheLibrary(t *testing.T) {
	bundle := string(must.Get(os.ReadFile(npmModules + "/@modelcontextprotocol/ext-apps/dist/src/app-with-deps.js"))(t))
	// A script in a page has no exports.
	code, exports, found := strings.Cut(bundle, "export{")
	must.That(t, found && !strings.Contains(exports, "export{"), "the bundle must have one list of exports")
	exports = regexp.MustCompile(`([\w$]+) as (\w+)`).ReplaceAllString(strings.TrimSpace(exports), "$2:$1")
	bundle = strings.ReplaceAll(code, "</script", `<\/script`) + "const ExtApps={" + exports
	s := newStage(t)
	s.addPage("library", "npm/app.html", "BUNDLE", bundle)
	p := inspectPage(t, serveTools(t, s.Server))
	p.run("library")
	p.press("Allow this tool for this page")
	p.see(`(?s)Context for the model.*a context.*tool echo npm.*note a note.*resources library,note.*a message.*` +
		`mode inline`)
	p.see(`wants to open a link`)
	p.press("Decline")
	p.see(`(?s)The page is closed: the page asked for it.*input {}.*result library is called.*` +
		`denied .*the user denied the request.*capabilities downloadFile,logging,message,openLinks,sandbox,` +
		`serverResources,serverTools,updateModelContext.*ends`)
}
