package house

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-mcp/parley/internal/must"
)

// The tests in this file check the rules themselves, with files that do not exist.

func TestImportRules(t *testing.T) {
	const ours = module + "/"
	for _, c := range []struct {
		file, target string
		want         string // part of the error; empty: the import is allowed
	}{
		// To a lower layer.
		{"server/server.go", ours + "internal/rpc", ""},
		{"server/server.go", ours + "internal/serve/modern", ""},
		{"internal/serve/httpserver/post.go", ours + "internal/serve/legacy", ""},
		{"call/call.go", ours + "mcp", ""},
		{"auth/oauth/flow.go", ours + "auth", ""},
		{"cmd/parley/main.go", ours + "gateway", ""},
		{"cmd/parley/main.go", ours + "otel", ""},
		{"cmd/parley/internal/servers/config/file.go", ours + "host", ""},
		{"server/server.go", "net/http", ""},

		// Under one entry.
		{"cmd/parley/main.go", ours + "cmd/parley/internal/servers/config", ""},
		{"schema/schema.go", ours + "schema/draft", ""},
		{"cmd/parley/root.go", ours + "cmd/parley/internal/serve", ""},
		{"cmd/parley/internal/serve/up.go", ours + "cmd/parley/internal/use", "only the root command"},
		{"cmd/parley/internal/servers/config/file.go", ours + "cmd/parley/internal/use", "only the root command"},

		// To the same layer and to a higher one.
		{"mcp/tool.go", ours + "jsonrpc", ""},
		{"jsonrpc/scan.go", ours + "internal/jsonscan", ""},
		{"schema/document.go", ours + "internal/jsonscan", ""},
		{"internal/jsonscan/scanner.go", ours + "jsonrpc", "layer 0"},
		{"jsonrpc/scan.go", ours + "mcp", "layer 0"},
		{"mcp/tool.go", ours + "principal", "layer 0"},
		{"server/server.go", ours + "client", "layer 6"},
		{"internal/serve/modern/replay.go", ours + "internal/serve/legacy", "layer 4"},
		{"transport/conn.go", ours + "auth/jwt", "layer 1"},
		{"auth/token.go", ours + "auth/oauth", "up to layer 3"},
		{"call/call.go", ours + "server", "up to layer 6"},
		{"internal/serve/legacy/session.go", ours + "internal/serve/httpserver", "up to layer 5"},
		{"gateway/gateway.go", ours + "cmd/parley/internal/servers/config", "up to layer 9"},

		// From and to packages without a layer.
		{"store/redisstore/redis.go", ours + "store", ""},
		{"store/redisstore/redis.go", ours + "internal/revision", "must not import internal"},
		{"otel/trace.go", ours + "server", ""},
		{"server/server.go", ours + "otel", "only the program"},
		{"store/memory.go", ours + "store/redisstore", "only the program"},
		{"store/storetest/kv.go", ours + "store", ""},
		{"mcptest/client.go", ours + "server", ""},
		{"mcptest/client.go", ours + "internal/serve/modern", "must not import internal"},
		{"internal/gatewaytest/run.go", ours + "mcptest", ""},
		{"gateway/gateway.go", ours + "internal/gatewaytest", "only tests"},
		{"examples/hello/main.go", ours + "internal/gatewaytest", "only tests"},
		{"server/server.go", ours + "mcptest", "only tests"},
		{"store/memory.go", ours + "store/storetest", "only tests"},
		{"examples/hello/main.go", ours + "server", ""},
		{"examples/hello/main.go", ours + "mcptest", ""},
		{"examples/hello/main.go", ours + "internal/revision", "must not import internal"},
		{"examples/hello/main.go", ours + "cmd/parley", "must not import internal"},
		{"conformance/server/main.go", ours + "conformance/fixture", ""},
		{"bench/layer.go", ours + "otel", ""},
		{"bench/layer.go", ours + "examples/hello", "no package imports"},
		{"client/client.go", ours + "bench", "no package imports"},
		{"internal/spec/load.go", ours + "mcp", ""},
		{"internal/spec/load.go", ours + "internal/rpc", "must not import internal"},
		{"server/server.go", ours + "internal/spec", "only tests import"},
		{"examples/hello/main.go", ours + "internal/spec", "only tests import"},
		{"server/server.go", ours + "internal/house", "no package imports"},

		// Tests may import public packages in higher layers, but no internal ones.
		{"mcp/tool_test.go", ours + "server", ""},
		{"mcp/tool_test.go", ours + "mcptest", ""},
		{"mcp/tool_test.go", ours + "internal/spec", ""},
		{"store/memory_test.go", ours + "store/storetest", ""},
		{"gateway/gateway_test.go", ours + "internal/gatewaytest", ""},
		{"internal/serve/modern/replay_test.go", ours + "client", ""},
		{"mcp/tool_test.go", ours + "internal/serve/modern", "up to layer 4"},
		{"server/server_test.go", ours + "cmd/parley", "up to layer 9"},
		{"server/server_test.go", ours + "examples/hello", "no package imports"},
		{"server/server_test.go", ours + "internal/house", "no package imports"},

		// Packages without I/O.
		{"jsonrpc/scan.go", "net/http", "does no I/O"},
		{"mcp/tool.go", "os", "does no I/O"},
		{"mcp/tool_test.go", "os", ""},
		{"store/memory.go", "os", ""},

		// The eras have no transport bindings.
		{"auth/devissuer/page.go", "html/template", "makes each program larger"},
		{"internal/serve/modern/server.go", "net/http", "transport bindings are in layer 5"},
		{"internal/serve/legacy/client.go", "net/http/httptrace", "transport bindings are in layer 5"},
		{"internal/serve/legacy/client_test.go", "net/http", ""},
		{"internal/serve/httpserver/server.go", "net/http", ""},

		// Packages that are not in the table.
		{"telemetry/trace.go", "fmt", "add its directory to the table"},
		{"server/server.go", ours + "internal/registry", "has no layer"},
		{"main.go", "fmt", "has no layer"},
		{"server/server.go", module, "has no package"},
	} {
		err := imported{c.file, c.target}.check()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s may import %s, got: %v", c.file, c.target, err)
		case c.want != "" && err == nil:
			t.Errorf("%s must not import %s, got no error", c.file, c.target)
		case c.want != "" && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s imports %s: got %q, want a text with %q", c.file, c.target, err, c.want)
		}
	}
}

func TestFileRules(t *testing.T) {
	long := strings.Repeat("\n", maxLines+1)
	files, err := read(fstest.MapFS{
		"server/server.go": {Data: []byte("package server\n\nimport (\n\t\"fmt\"\n\tx \"" + module +
			"/client\"\n)\n")},
		"server/windows.go":   {Data: []byte("//go:build windows\n\npackage server\n\nimport \"C\"\n")},
		"server/long.go":      {Data: []byte("package server" + long)},
		"server/long_test.go": {Data: []byte("package server" + long)},
		"server/table.go": {Data: []byte("// Code generated by a program. DO NOT EDIT.\n\npackage server" +
			long)},
		"server/testdata/bad.go":       {Data: []byte("not Go")},
		"interop/node_modules/a/b.go":  {Data: []byte("not Go")},
		".tools/x.go":                  {Data: []byte("not Go")},
		"cmd/parley/go.mod":            {Data: []byte("module " + module + "/cmd/parley\n")},
		"cmd/parley/main.go":           {Data: []byte("package main\n")},
		"server/stringutil/s.go":       {Data: []byte("package stringutil\n")},
		"server/a/common_test.go":      {Data: []byte("package a_test\n")},
		"server/simple/simple_test.go": {Data: []byte("package simple_test\n")},
		"server/b/b.go":                {Data: []byte("package managers\n")},
		"server/storeimpl/b.go":        {Data: []byte("package storeimpl\n")},
	})
	must.Do(t, err)
	imports := make(map[string][]string)
	var tooLong, badNames []string
	for _, f := range files {
		imports[f.path] = f.imports
		if f.checkLength() != nil {
			tooLong = append(tooLong, f.path)
		}
		if f.checkName() != nil {
			badNames = append(badNames, f.path)
		}
	}
	must.CheckEqual(t, len(files), 11, "files, want 11", imports)
	must.CheckEqual(t, strings.Join(imports["server/server.go"], " "), "fmt "+module+"/client", "imports of server.go")
	must.CheckEqual(t, strings.Join(imports["server/windows.go"], " "), "C", "imports of windows.go")
	must.CheckEqual(t, strings.Join(tooLong, " "), "server/long.go", "files that are too long")
	must.CheckEqual(t, strings.Join(badNames, " "),
		"server/a/common_test.go server/b/b.go server/storeimpl/b.go server/stringutil/s.go", "files with bad names")
	if _, err := read(fstest.MapFS{"server/bad.go": {Data: []byte("not Go")}}); err == nil {
		t.Error("no error for a file that is not Go")
	}
}
