package jsonrpc_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

const toolCall = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

func BenchmarkParse(b *testing.B) {
	data := []byte(toolCall)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := jsonrpc.Parse(data, jsonrpc.Limits{}); err != nil {
			b.Fatal(err)
		}
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
