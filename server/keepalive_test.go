package server_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/server"
)

func TestKeepAliveIsTheIntervalOfComments(t *testing.T) {
	endpoint := httptest.NewServer(&server.Server{KeepAlive: 5 * time.Millisecond})
	defer endpoint.Close()
	resp := wiretest.Do(t, http.MethodGet, endpoint.URL, "", "Accept", "text/event-stream")
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
