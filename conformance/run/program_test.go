package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
)

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
