package mcp_test

import (
	"errors"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Rule J11: _meta keys have a grammar.
func TestMetaKeyGrammar(t *testing.T) {
	for key, valid := range map[string]bool{
		"":                                     true, // no prefix and an empty name
		"a":                                    true,
		"7":                                    true,
		"progressToken":                        true,
		"a.b_c-d":                              true,
		"com.example/":                         true, // an empty name
		"com.example/a":                        true,
		"example/a":                            true,
		"c0m.ex--ample2/a..b":                  true,
		"io.modelcontextprotocol/related-task": true,

		"-a":              false,
		"a-":              false,
		".a":              false,
		"_a":              false,
		"a b":             false,
		"ä":               false,
		"a\x00b":          false,
		"/a":              false, // an empty prefix
		"com..example/a":  false,
		".com/a":          false,
		"com./a":          false,
		"1com.example/a":  false,
		"com.2example/a":  false,
		"com.-example/a":  false,
		"com.example-/a":  false,
		"com.exam_ple/a":  false,
		"com.exämple/a":   false,
		"com.example/a/b": false,
		"com.example//":   false,
		"com.example/-":   false,
	} {
		err := mcp.CheckMetaKey(key)
		if valid && err != nil {
			t.Errorf("%q: %v", key, err)
		}
		if !valid && !errors.Is(err, mcp.ErrMetaKey) {
			t.Errorf("%q: got %v, want ErrMetaKey", key, err)
		}
	}
}

// Rule J11: some _meta keys are reserved.
func TestReservedMetaKeys(t *testing.T) {
	for key, reserved := range map[string]bool{
		"io.modelcontextprotocol/":         true,
		"io.modelcontextprotocol/a":        true,
		"dev.mcp/a":                        true,
		"org.modelcontextprotocol.api/a":   true,
		"com.mcp.tools/a":                  true,
		"progressToken":                    true,
		"traceparent":                      true,
		"tracestate":                       true,
		"baggage":                          true,
		"com.example.mcp/a":                false,
		"mcp.dev/a":                        false,
		"mcp/a":                            false,
		"modelcontextprotocol/a":           false,
		"com.mcpx/a":                       false,
		"com.example/progressToken":        false,
		"com.example/modelcontextprotocol": false,
		"mcp":                              false,
		"a":                                false,
	} {
		if got := mcp.ReservedMetaKey(key); got != reserved {
			t.Errorf("ReservedMetaKey(%q) is %t", key, got)
		}
	}
}

func TestMetaSetAndGet(t *testing.T) {
	var params mcp.CallToolParams
	if err := params.Meta.Set(mcp.MetaProgressToken, jsonrpc.IntID(9007199254740993)); err != nil {
		t.Fatal(err)
	}
	if err := params.Meta.Set(mcp.MetaClientCapabilities, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}); err != nil {
		t.Fatal(err)
	}
	var token jsonrpc.ID
	if ok, err := params.Meta.Get(mcp.MetaProgressToken, &token); !ok || err != nil || token != jsonrpc.IntID(9007199254740993) {
		t.Errorf("got %v, %t, %v", token, ok, err)
	}
	if ok, err := params.Meta.Get("absent", &token); ok || err != nil {
		t.Errorf("an absent key: %t, %v", ok, err)
	}
	if ok, err := params.Meta.Get(mcp.MetaClientCapabilities, &token); !ok || err == nil {
		t.Errorf("a value of another type: %t, %v", ok, err)
	}
	if err := params.Meta.Set("not a key", 1); !errors.Is(err, mcp.ErrMetaKey) {
		t.Errorf("an invalid key: %v", err)
	}
	if err := params.Meta.Set("key", make(chan int)); err == nil {
		t.Error("Set of a value that cannot be encoded returns nil")
	}
	if len(params.Meta) != 2 {
		t.Errorf("got %d keys, want the 2 that are valid", len(params.Meta))
	}
}

func TestRequestMetaDecodesProtocolKeys(t *testing.T) {
	const raw = `{
		"progressToken": "p",
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": {},
		"io.modelcontextprotocol/logLevel": "info",
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
		"com.example/other": 1
	}`
	for _, codec := range codecs {
		var meta mcp.RequestMeta
		if err := codec.unmarshal([]byte(raw), &meta); err != nil {
			t.Fatalf("%s: %v", codec.name, err)
		}
		if meta.ProgressToken != jsonrpc.StringID("p") || meta.ProtocolVersion != mcp.V20260728 ||
			meta.ClientInfo == nil || meta.ClientInfo.Name != "c" || meta.ClientCapabilities == nil ||
			meta.LogLevel != mcp.LevelInfo || meta.TraceParent == "" {
			t.Errorf("%s: got %+v", codec.name, meta)
		}
	}
}

func TestEmptyMetaIsPresentAndNilMetaAbsent(t *testing.T) {
	for _, codec := range codecs {
		for _, c := range []struct {
			meta mcp.Meta
			want string
		}{
			{mcp.Meta{}, `{"_meta":{}}`},
			{nil, `{}`},
		} {
			got, err := codec.marshal(mcp.EmptyResult{ResultBase: mcp.ResultBase{Meta: c.meta}})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("%s: got %s, want %s", codec.name, got, c.want)
			}
			var back mcp.EmptyResult
			if err := codec.unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			if (back.Meta == nil) != (c.meta == nil) {
				t.Errorf("%s: %s decodes as %#v", codec.name, got, back.Meta)
			}
		}
	}
}
