package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// With this environment variable, the test program is a server.
const serverKind = "DOCTOR_TEST_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(serverKind) {
	case "":
		goleak.VerifyTestMain(m)
	case "good":
		if err := newServer().Run(context.Background()); err != nil {
			log.Fatal(err)
		}
	case "obeys SIGTERM":
		serveUntilTerminated()
	default:
		serveBadly()
	}
}

type greeting struct {
	Name string `json:"name" doc:"name of the person"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "good", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet a person"},
		func(_ context.Context, in greeting) (string, error) { return "Hello, " + in.Name, nil })
	return s
}

// examine returns the findings about a target, as lines of level, check, text and fix.
func examine(t *testing.T, target client.Target, change ...func(*Examination)) (findings []string, err error) {
	t.Helper()
	e := &Examination{Target: target}
	e.Report = func(f Finding) {
		findings = append(findings, fmt.Sprintf("%s %s: %s -> %s", f.Level, f.Check, f.Text, f.Fix))
	}
	for _, c := range change {
		c(e)
	}
	err = e.Run(t.Context())
	return findings, err
}

func TestServersOfTheLibraryHaveNoProblems(t *testing.T) {
	s := newServer()
	web := httptest.NewServer(s)
	defer web.Close()
	defer s.Shutdown(context.Background())
	for name, target := range map[string]client.Target{"URL": client.URL(web.URL), "command": testServer("good")} {
		findings, err := examine(t, target)
		if err != nil || len(findings) < 8 {
			t.Errorf("%s: %v after the findings\n%s", name, err, strings.Join(findings, "\n"))
		}
		for _, f := range findings {
			must.CheckThat(t, strings.HasPrefix(f, string(OK)+" "), "%s: %s", name, f)
		}
	}
}

// Many Python servers redirect /mcp/ to /mcp with an absolute URL.
func TestChecksFollowTheRedirectsThatClientsFollow(t *testing.T) {
	s := newServer()
	defer s.Shutdown(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/mcp", s)
	mux.HandleFunc("/mcp/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/mcp", http.StatusTemporaryRedirect)
	})
	web := httptest.NewServer(mux)
	defer web.Close()
	findings, err := examine(t, client.URL(web.URL+"/mcp/"))
	must.Check(t, err)
	redirected := "note address: the server redirects requests -> use " + web.URL +
		"/mcp, because some clients do not follow redirects"
	for _, f := range findings {
		must.CheckThat(t, strings.HasPrefix(f, string(OK)+" ") || f == redirected, "%s", f)
	}
	must.CheckThat(t, slices.Contains(findings, redirected), "%q", findings)
}

func testServer(kind string) *client.CommandTarget {
	return &client.CommandTarget{CommandOptions: transport.CommandOptions{Path: os.Args[0],
		Env: []string{serverKind + "=" + kind, "GORACE=atexit_sleep_ms=0"}}} // it would sleep for a second at its end
}

// badEndpoint is an endpoint without sessions and without any checks.
func badEndpoint(w http.ResponseWriter, r *http.Request) {
	var message struct {
		ID     json.RawMessage
		Method string
		Params struct{ ProtocolVersion string }
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&message) != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	result := ""
	switch message.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "1")
		result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{},"prompts":{},"resources":{}},`+
			`"serverInfo":{"name":"","version":""}}`, message.Params.ProtocolVersion)
	case "ping":
		result = "{}"
	case "tools/list":
		result = `{"tools":[
			{"name":"a b","inputSchema":{"type":"object","properties":{"z":{"$ref":"#/properties/z/allOf/0","allOf":[{"description":"d"}]}},
				"allOf":[{"properties":{"x":{"type":"string"}},"required":["y","z"]}]}},
			{"name":"ref","description":"d","inputSchema":{"type":"object","properties":{"x":{"$ref":"https://example.com/x.json"}}}},
			{"name":"both","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":true}},
			{"name":"both","description":"` + strings.Repeat("d", maxCatalogue) + `","inputSchema":{"type":"object"}}]}`
	case "prompts/list":
		result = `{"prompts":[{"name":"p","arguments":[{"name":"q"}]}]}`
	case "resources/list":
		result = `{"resources":[{"uri":"no scheme","name":"r"}]}`
	case "resources/templates/list":
		result = `{"resourceTemplates":[{"uriTemplate":"x:{y","name":"t"}]}`
	default:
		if message.ID != nil {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, message.ID)
		}
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, message.ID, result)
}

func TestFaultsOfAnEndpointAreFound(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(badEndpoint))
	defer web.Close()
	findings, err := examine(t, client.URL(web.URL))
	must.Check(t, err)
	for _, want := range []string{
		"warning connect: the server has no name or no version",
		"problem origin: does not reject requests from web pages of other origins with status 403: it answers with " +
			"status 200 and a result -> ",
		"warning origin: does not reject requests for another host: it answers with status 200 and a result -> ",
		"warning session: the session ID has only 1 character, so",
		"problem session: does not reject an unknown session with status 404: it answers with status 200",
		"ok lists: 4 tools",
		"warning size: the definitions of the tools need about 3",
		"warning tools: the name has characters that clients may reject: a b ->",
		"warning tools: a tool has no description; models choose tools by it: a b ->",
		"note tools: an argument has no description: a b x ->",
		"warning tools: a required argument is not among the properties: a b y ->",
		"problem tools: a reference of the input schema has no target: ref https://example.com/x.json ->",
		"warning tools: the annotations contradict each other: readOnlyHint and destructiveHint: both ->",
		"problem tools: several tools have the same name: both ->",
		"note tools: a description has more than 4 KiB: both ->",
		"warning prompts: a prompt has no description",
		"note prompts: an argument of a prompt has no description: p q ->",
		"problem resources: a URI is invalid or has no scheme: no scheme ->",
		"note resources: a resource has no MIME type",
		"problem templates: a URI template is invalid (RFC 6570): x:{y ->",
	} {
		must.CheckThat(t, slices.ContainsFunc(findings, func(f string) bool { return strings.HasPrefix(f, want) }),
			"no finding %q", want)
	}
	if t.Failed() {
		t.Log(cut(findings))
	}
}

// cut returns the findings in short.
func cut(findings []string) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintln(&b, f[:min(len(f), 300)])
	}
	return b.String()
}

func TestAServerThatCannotBeReachedIsExplained(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	address := web.URL
	web.Close()
	findings, err := examine(t, client.URL(address))
	must.CheckThat(t, err != nil && len(findings) == 1 && strings.HasPrefix(findings[0], "problem address: ") &&
		strings.HasSuffix(findings[0], "start the server, or check the port"), "%v %q", err, findings)
	findings, err = examine(t, client.Command("no-such-program-of-a-test"))
	must.CheckThat(t, err != nil && len(findings) == 1 && strings.HasPrefix(findings[0], "problem connect: "),
		"%v %q", err, findings)
}

func TestCertificatesAreExamined(t *testing.T) {
	s := newServer()
	defer s.Shutdown(context.Background())
	web := httptest.NewUnstartedServer(s)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	defer web.Close()
	findings, err := examine(t, client.URL(web.URL))
	must.CheckThat(t, err != nil && strings.HasPrefix(findings[len(findings)-1], "problem tls: ") &&
		strings.Contains(findings[len(findings)-1], "install a certificate"), "%v %q", err, findings)
}

// The name of the server cannot be resolved here.
func TestServersBehindAProxyAreExamined(t *testing.T) {
	s := newServer()
	s.AllowedHosts = []string{"mcp.invalid"}
	defer s.Shutdown(context.Background())
	for _, test := range []struct {
		address, want string
		proxy         http.Handler
	}{
		{"http://mcp.invalid/", "ok address: mcp.invalid answers through the proxy 127.0.0.1:", s},
		{"https://mcp.invalid/", "problem address: no connection to mcp.invalid through the proxy 127.0.0.1:",
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				must.CheckEqual(t, r.Method, http.MethodConnect)
				must.CheckEqual(t, r.Host, "mcp.invalid:443")
				w.WriteHeader(http.StatusBadGateway)
			})},
	} {
		proxy := httptest.NewServer(test.proxy)
		defer proxy.Close()
		u := must.Get(url.Parse(proxy.URL))(t)
		transport := &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}
		findings, _ := examine(t, client.URL(test.address), func(e *Examination) {
			e.proxy, e.Dialer.HTTPClient = http.ProxyURL(u), &http.Client{Transport: transport}
		})
		if !strings.HasPrefix(findings[0], test.want) || strings.Contains(fmt.Sprint(findings), "no such host") {
			t.Errorf("%s: %s", test.address, cut(findings))
		}
	}
}

// serveBadly writes a log message to standard output, and does not exit when its input ends.
func serveBadly() {
	// The library would redirect standard output.
	stdout := os.Stdout
	fmt.Fprintln(stdout, "Listening for requests")
	conn := transport.Stream(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, stdout}, transport.StreamOptions{})
	if err := newServer().ServeConn(context.Background(), conn); err != nil {
		log.Print(err)
	}
	signal.Ignore(syscall.SIGTERM)
	select {}
}

// serveUntilTerminated exits with code 0, but only after SIGTERM.
func serveUntilTerminated() {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	_ = newServer().Run(context.Background()) // returns when its input ends
	<-terminated
}

func TestServerThatNeedsASignalDoesNotExitByItself(t *testing.T) {
	target := testServer("obeys SIGTERM")
	target.ExitGrace = 100 * time.Millisecond
	findings, err := examine(t, target, func(e *Examination) { e.grace = 300 * time.Millisecond })
	must.Check(t, err)
	all := strings.Join(findings, "\n")
	must.CheckContains(t, all, "warning process: does not exit within 300ms after its standard input was closed; it "+
		"ended after SIGTERM")
	must.CheckThat(t, !strings.Contains(all, "ok process: exits"), "%v", all)
}

func TestFaultsOfACommandAreFound(t *testing.T) {
	target := testServer("bad")
	target.ExitGrace, target.TermGrace = 100*time.Millisecond, 100*time.Millisecond
	findings, err := examine(t, target, func(e *Examination) { e.grace = 300 * time.Millisecond })
	must.Check(t, err)
	all := strings.Join(findings, "\n")
	for _, want := range []string{
		`problem process: writes a line to standard output that is not an MCP message: "Listening for requests"`,
		"ok process: keeps running after an invalid line",
		"warning process: does not exit within 300ms after its standard input was closed",
	} {
		must.CheckContains(t, all, want, "no finding")
	}
}
