package server_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/server"
)

func TestKeepAliveIsTheIntervalOfComments(t *testing.T) {
	endpoint := httptest.NewServer(&server.Server{KeepAlive: 5 * time.Millisecond})
	defer endpoint.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := endpoint.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for comments := 0; comments < 3; {
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d comments: %v", comments, lines.Err())
		}
		if strings.HasPrefix(lines.Text(), ":") {
			comments++
		}
	}
}
