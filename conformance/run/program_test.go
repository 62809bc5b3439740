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

// Copied under the name "server", this test program is the server under test; the variable says how it behaves.
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
	case "mute":
		fmt.Println("listening somewhere")
	case "crash":
		fmt.Println("http://127.0.0.1:1/mcp")
		panic("boom")
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

// installServer puts this test program where startServer looks for the server.
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
	p, err := startServer(t.Context(), installServer(t, "well"))
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

func TestServerMustSayItsURL(t *testing.T) {
	if _, err := startServer(t.Context(), installServer(t, "mute")); err == nil || !strings.Contains(err.Error(), `"listening somewhere"`) {
		t.Errorf("error %v, want what the server said", err)
	}
}

func TestStopReportsAnUncleanEnd(t *testing.T) {
	for how, want := range map[string]string{"fail": "exit status 3", "race": "WARNING: DATA RACE"} {
		p, err := startServer(t.Context(), installServer(t, how))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.stop(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("stop of a server that should %s: %v, want %q", how, err, want)
		}
	}
}

func TestStopReportsACrash(t *testing.T) {
	p, err := startServer(t.Context(), installServer(t, "crash"))
	if err != nil {
		t.Fatal(err)
	}
	p.exited <- <-p.exited // wait for it
	err = p.stop()
	if err == nil || !strings.Contains(err.Error(), "ended before the suite did") || !strings.Contains(err.Error(), "panic: boom") {
		t.Errorf("stop: %v, want the panic", err)
	}
}
