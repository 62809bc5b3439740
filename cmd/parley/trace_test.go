package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTraceDoesNotDelayEvents(t *testing.T) {
	var traced bytes.Buffer
	release := make(chan struct{})
	s := httptest.NewServer((&observer{tracer: newTracer(&traced)}).handlers("")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	case <-time.After(waitLimit):
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
