//lint:file-ignore SA1019 Deprecated features must keep working.

package client_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// Rule H8: only file URIs are roots. The program learns about others; the server does not.
func TestRootsAreFileURIs(t *testing.T) {
	const list = `"method":"roots/list","params":{}`
	modern, legacy := modernServer(), legacyServer()
	modern.Answers["tools/call"] = []string{`"result":{"resultType":"input_required","inputRequests":{"q":{` + list + `}}}`, called}
	legacy.Answers["tools/call"] = []string{"!lines " + `{"jsonrpc":"2.0","id":"q",` + list + "}\n" + `{"jsonrpc":"2.0","id":$id,` + called + `}`}
	for uri, valid := range map[string]bool{
		"file:///work": true, "file:///C:/work": true, "file://host/share": true, "file:///a%20b": true,
		"": false, "/canary": false, "canary": false, "file:canary": false, "file:/canary": false, "file://canary": false, "file://%zz/canary": false,
		"https://example.com/canary": false, "javascript:canary": false,
	} {
		for era, s := range map[string]*script{"2026-07-28": modern, "2025-06-18": legacy} {
			t.Run(era+"/"+uri, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					d := client.Dialer{Logger: slog.New(slog.NewTextHandler(&log, nil))}
					d.Roots = func(context.Context) ([]mcp.Root, error) {
						return []mcp.Root{{URI: "file:///fine"}, {URI: uri}}, nil
					}
					sent := new(bytes.Buffer)
					d.Trace = func(out bool, message []byte) {
						if out {
							sent.Write(message)
						}
					}
					to, _ := target(s)
					c, err := d.Dial(t.Context(), to)
					if err != nil {
						t.Fatal(err)
					}
					_, err = client.CallTool[string](t.Context(), c, "a", nil)
					synctest.Wait()
					_ = c.Close()
					if got := strings.Contains(sent.String(), `"uri":"file:///fine"`); got != valid {
						t.Errorf("the client sent %s", sent)
					}
					if told := err != nil || log.Len() > 0; told == valid {
						t.Errorf("%v; the log is %s", err, &log)
					}
				})
			})
		}
	}
}
