package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out = t.TempDir()
	if err := os.Symlink(self, filepath.Join(out, "server")); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestServerIsStartedAndStopped(t *testing.T) {
	p, err := startServer(t.Context(), installServer(t, "well"), "server")
	if err != nil {
		t.Fatal(err)
	}
	if want := "http://127.0.0.1:1/mcp"; p.url != want {
		t.Errorf("url %q, want %q", p.url, want)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestServerMustPrintItsURL(t *testing.T) {
	if _, err := startServer(t.Context(), installServer(t, "no URL"), "server"); err == nil ||
		!strings.Contains(err.Error(), `"listening somewhere"`) {
		t.Errorf("error %v, want the output of the server", err)
	}
}

func TestStopReportsFailureOfServer(t *testing.T) {
	for how, want := range map[string]string{"fail": "exit status 3", "race": "WARNING: DATA RACE"} {
		p, err := startServer(t.Context(), installServer(t, how), "server")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.stop(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", how, err, want)
		}
	}
}

func TestStopReportsCrash(t *testing.T) {
	p, err := startServer(t.Context(), installServer(t, "crash"), "server")
	if err != nil {
		t.Fatal(err)
	}
	p.exited <- <-p.exited // wait for it
	err = p.stop()
	if err == nil || !strings.Contains(err.Error(), "ended before the suite") ||
		!strings.Contains(err.Error(), "panic: failed") {
		t.Errorf("stop: %v, want the panic", err)
	}
}
