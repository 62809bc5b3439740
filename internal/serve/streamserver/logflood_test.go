package streamserver_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
)

// Rule Y4: a client that sends messages that the server cannot use does not fill its log.
func TestUnusableMessagesDoNotFillTheLog(t *testing.T) {
	const lines = 5000
	for _, message := range []string{
		`{"jsonrpc":"2.0","method":"m","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"result":7}`,
		`{"jsonrpc":"2.0","method":"m","params":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + `}`,
	} {
		var log bytes.Buffer
		s := newServer(nil)
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		p := connect(t, s)
		p.handshake(mcp.V20251125)
		for range lines {
			p.send(message)
		}
		p.alive()
		p.conn.Close()
		if err := p.ended(); err != nil {
			t.Error(err)
		}
		written := strings.Count(log.String(), "\n")
		if written == 0 || written > 100 || !strings.Contains(log.String(), fmt.Sprintf("not_logged=%d", lines-(written-1))) {
			t.Errorf("%.100s: the log has %d lines: %s", message, written, log.String()[max(0, log.Len()-300):])
		}
	}
}
