package endpoint

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

func TestLimitFlagsSetTheRatesOfTheServer(t *testing.T) {
	for args, want := range map[[2]string]server.Limits{
		{}: {CallsPerSecond: defaultLimitCalls,
			ListsPerSecond: defaultLimitLists},
		{"--limit-calls=5", "--limit-lists=7"}: {CallsPerSecond: 5, ListsPerSecond: 7},
		{"--limit-calls=0", "--limit-lists=0"}: {CallsPerSecond: -1},
	} {
		cmd := new(cobra.Command)
		var flags Flags
		flags.Add(cmd)
		if err := cmd.ParseFlags(args[:]); err != nil {
			t.Fatal(err)
		}
		s := &server.Server{}
		flags.Limit(s)
		if s.Limits != want {
			t.Errorf("%q: %+v, want %+v", args, s.Limits, want)
		}
	}
}

// A proxy on this machine forwards requests of others, so what it forwards is not from the user of this machine.
func TestForwardedRequestsAreNotOfTheLocalUser(t *testing.T) {
	for header, local := range map[string]bool{
		"": true, "X-Other": true, "Forwarded": false, "X-Forwarded-For": false, "X-Real-IP": false, "Via": false,
		"via": false,
	} {
		r := httptest.NewRequest(http.MethodPost, Path, nil)
		if header != "" {
			r.Header.Set(header, "")
		}
		var user any
		ofLocalUser(http.HandlerFunc(func(_ http.ResponseWriter,
			r *http.Request) {
			user = rpc.UserOf(r.Context(), new(rpc.Call))
		})).ServeHTTP(nil, r)
		if (user == principal.Local) != local {
			t.Errorf("with the header %q: %v", header, user)
		}
	}
}

func TestTraceDoesNotDelayEvents(t *testing.T) {
	var traced bytes.Buffer
	release := make(chan struct{})
	s := httptest.NewServer((&observer{tracer: traffic.NewTracer(&traced)}).handlers("")(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"n\":\ndata: 1}\n\ndata: {\"n\"")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		<-release
		_, _ = io.WriteString(w, ": 2}\n\n: a comment\n\n")
	})))
	defer s.Close()
	resp, err := http.Post(s.URL, "application/json", strings.NewReader("{\n \"method\": \"\\u001b[31m\"\n}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	arrived := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(resp.Body, make([]byte, 10))
		arrived <- err
	}()
	select {
	case err := <-arrived:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the first event is delayed")
	}
	close(release)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	s.Close() // waits for the handler, which writes the trace
	var lines []string
	for line := range strings.Lines(traced.String()) {
		arrow, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, message, _ := strings.Cut(rest, " ")
		lines = append(lines, arrow+" "+message)
	}
	want := []string{`← {"method":"\u001b[31m"}`, `→ {"n":1}`, `→ {"n":2}`}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("trace:\n%s\nwant\n%s", traced.String(), strings.Join(want, "\n"))
	}
}

func TestStatusTellsWhichServersHaveOneClientPerCaller(t *testing.T) {
	p := NewStatus(io.Discard)
	for sharing, want := range map[host.Sharing]bool{host.Shared: false, host.PerCaller: true} {
		if text := p.summary(host.ServerStatus{State: host.Ready, Sharing: sharing}); strings.Contains(text,
			"one client per caller") != want {
			t.Errorf("%v: %s", sharing, text)
		}
	}
}
