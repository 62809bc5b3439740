package jsonrpc_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
)

func TestOrdinaryMessagesCostNoAllocation(t *testing.T) {
	call, note, answer := []byte(toolCall), []byte(samples[4]), []byte(samples[6])
	m := must.Get(jsonrpc.Parse(call, jsonrpc.Limits{}))(t)
	many := must.Get(jsonrpc.Parse([]byte(notification(members(30))), jsonrpc.Limits{}))(t)
	result, buf := []byte(`{"content":[{"type":"text","text":"hello"}]}`), make([]byte, 0, 1024)
	failure := &jsonrpc.Error{Code: 1, Message: "m\n", Data: []byte(`{}`)}
	for _, tc := range []struct {
		what string
		do   func() bool
	}{
		{"Parse of a call with _meta", func() bool {
			m, err := jsonrpc.Parse(call, jsonrpc.Limits{})
			return err == nil && m.Kind == jsonrpc.Request
		}},
		{"Parse of a notification", func() bool { _, err := jsonrpc.Parse(note, jsonrpc.Limits{}); return err == nil }},
		{"Parse of a response", func() bool { _, err := jsonrpc.Parse(answer, jsonrpc.Limits{}); return err == nil }},
		{"Check", func() bool { return jsonrpc.Check(call, jsonrpc.Limits{}) == nil }},
		{"Get", func() bool {
			meta, ok := m.Params.Get("_meta")
			version, found := jsonrpc.Get(meta, "io.modelcontextprotocol/protocolVersion")
			return ok && found && jsonrpc.Unquote(version) == "2026-07-28"
		}},
		{"Get of the last of many", func() bool { _, ok := many.Params.Get("29"); return ok }},
		{"All", func() bool {
			n := 0
			for range jsonrpc.All(m.Raw) {
				n++
			}
			return n == m.Params.Len()
		}},
		{"All of the params", func() bool {
			n := 0
			for range m.Params.All() {
				n++
			}
			for range many.Params.All() {
				n++
			}
			return n == m.Params.Len()+many.Params.Len()
		}},
		{"AppendRequest", func() bool { return len(jsonrpc.AppendRequest(buf, m.ID, m.Method, m.Raw)) > 0 }},
		{"AppendNotification", func() bool { return len(jsonrpc.AppendNotification(buf, m.Method, m.Raw)) > 0 }},
		{"AppendResult", func() bool { return len(jsonrpc.AppendResult(buf, m.ID, result)) > 0 }},
		{"AppendError", func() bool { return len(jsonrpc.AppendError(buf, m.ID, failure, false)) > 0 }},
		{"AppendString", func() bool { return len(jsonrpc.AppendString(buf, "a\nb\"é\xff")) > 0 }},
	} {
		ok := true
		must.CheckEqual(t, testing.AllocsPerRun(100, func() { ok = tc.do() && ok }), 0, tc.what)
		must.CheckThat(t, ok, "%s did not work", tc.what)
	}
}

const toolCall = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"echo",` +
	`"arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}`

func BenchmarkParse(b *testing.B) {
	data := []byte(toolCall)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		must.Do(b, must.Err(jsonrpc.Parse(data, jsonrpc.Limits{})))
	}
}

func BenchmarkAppendString(b *testing.B) {
	for name, line := range map[string]string{
		"ASCII":   "A line of ordinary text, with \"quotes\" now and then.\n",
		"Unicode": "Größe und Maß, 東京 は 日本.\n",
	} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(line, 1<<20/len(line))
			buf := make([]byte, 0, 2<<20)
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				buf = jsonrpc.AppendString(buf[:0], text)
			}
		})
	}
}
