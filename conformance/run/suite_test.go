package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
)

func TestParseListFindsScenariosOfRole(t *testing.T) {
	const all = `Server scenarios (test against a server):
  - ping [2025-06-18,2025-11-25]
  - tools-list [2025-11-25]

Client scenarios (test against a client):
  - auth/dpop [extension]

Authorization server scenarios (test against an authorization server):
  - authorization-code-grant [2025-11-25]
`
	const set = `Required for 2025-11-25 (3 scenarios, frozen; run at the 2025-11-25 wire):

Server scenarios (test against a server):
  - ping

Client scenarios (test against a client):
  - initialize
  - tools_call

Run and reported, but never scored:
  extension (1):
    - auth/dpop [client]
  pending (1):
    - server-sse-polling [server]

`
	for _, tt := range []struct {
		text, role string
		want       []string
	}{
		{all, "server", []string{"ping", "tools-list"}},
		{all, "client", []string{"auth/dpop"}},
		{set, "server", []string{"ping", "server-sse-polling"}},
		{set, "client", []string{"initialize", "tools_call", "auth/dpop"}},
	} {
		if got := parseList(tt.text, tt.role); !slices.Equal(got, tt.want) {
			t.Errorf("%s scenarios are %q, want %q, in\n%s", tt.role, got, tt.want, tt.text)
		}
	}
}

func TestReadOutcomesNamesScenariosByDirectory(t *testing.T) {
	const stamp = "-2026-01-02T03-04-05-678Z"
	dir := t.TempDir()
	write := func(file, text string) {
		file = filepath.Join(dir, filepath.FromSlash(file))
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write("server/server-server-initialize"+stamp+"/checks.json", `[{"id":"a","status":"SUCCESS","extra":{}}]`)
	write("client/auth/2025-03-26-fallback"+stamp+"/checks.json", `[]`)
	write("client/auth/2025-03-26-fallback"+stamp+"/stderr.txt", "a log line\npanic: failed\n")
	write("client/initialize"+stamp+"/checks.json", `[]`)
	write("client/initialize"+stamp+"/stderr.txt", "a log line with panic: in it\n")

	server := must.Get(readOutcomes(filepath.Join(dir, "server"), "server"))(t)
	o, ok := server["server-initialize"]
	must.CheckThat(t, ok && len(o.checks) == 1 && o.checks[0].ID == "a", "server outcomes: %+v", server)
	client := must.Get(readOutcomes(filepath.Join(dir, "client"), "client"))(t)
	o, ok = client["auth/2025-03-26-fallback"]
	must.CheckThat(t, ok && o.crash != nil, "panic of the client is missing: %+v", client)
	o, ok = client["initialize"]
	must.CheckThat(t, ok && o.crash == nil, "unexpected panic: %+v", client)
	none, err := readOutcomes(filepath.Join(dir, "absent"), "client")
	must.CheckThat(t, len(none) == 0 && err == nil, "missing directory: %v, %v", none, err)
}

// Under the name "server", this test binary is the server under test. The variable selects its behaviour.
const behaviour = "CONFORMANCE_RUN_TEST_SERVER"

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviour); how != "" {
		behave(how)
		return
	}
	goleak.VerifyTestMain(m)
}

func behave(how string) {
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	switch how {
	case "no URL":
		fmt.Println("listening somewhere")
	case "crash":
		fmt.Println("http://127.0.0.1:1/mcp")
		panic("failed")
	default:
		fmt.Println("http://127.0.0.1:1/mcp")
		<-interrupt
		if how == "fail" {
			os.Exit(3)
		}
		if how == "race" {
			fmt.Fprintln(os.Stderr, "WARNING: DATA RACE")
		}
	}
}

// installServer makes this test binary the server that startServer starts.
func installServer(t *testing.T, how string) (out string) {
	t.Helper()
	t.Setenv(behaviour, how)
	self := must.Get(os.Executable())(t)
	out = t.TempDir()
	must.Do(t, os.Symlink(self, filepath.Join(out, "server")))
	return out
}

func TestServerIsStartedAndStopped(t *testing.T) {
	p := must.Get(startServer(t.Context(), installServer(t, "well"), "server"))(t)
	must.CheckEqual(t, p.url, "http://127.0.0.1:1/mcp")
	must.Check(t, p.stop())
}

func TestServerMustPrintItsURL(t *testing.T) {
	must.CheckFails(t, must.Err(startServer(t.Context(), installServer(t, "no URL"), "server")),
		`"listening somewhere"`)
}

func TestStopReportsFailureOfServer(t *testing.T) {
	for how, want := range map[string]string{"fail": "exit status 3", "race": "WARNING: DATA RACE"} {
		p := must.Get(startServer(t.Context(), installServer(t, how), "server"))(t)
		must.CheckFails(t, p.stop(), want, how)
	}
}

func TestStopReportsCrash(t *testing.T) {
	p, err := startServer(t.Context(), installServer(t, "crash"), "server")
	must.Do(t, err)
	p.exited <- <-p.exited // wait for it
	err = p.stop()
	must.CheckThat(t, err != nil && strings.Contains(err.Error(), "ended before the suite") &&
		strings.Contains(err.Error(), "panic: failed"), "stop: %v, want the panic", err)
}
