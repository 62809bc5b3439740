package modern

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

func newServer() *Server {
	ok := func(context.Context, *rpc.Call) (any, error) { return &mcp.EmptyResult{}, nil }
	engine := rpc.NewEngine(rpc.Handlers{
		mcp.MethodListTools:    ok,
		mcp.MethodCallTool:     ok,
		mcp.MethodReadResource: ok,
		mcp.MethodPing:         ok, // has a handler, but is not in this revision
	}, slog.New(slog.DiscardHandler))
	engine.Identity = []byte(`{"name":"s","version":"1"}`)
	return &Server{Engine: engine, Peers: &rpc.PeerCache{}}
}

func parse(t *testing.T, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
	must.Do(t, err, raw)
	return &m
}

// request returns a request whose _meta has the given version and capabilities, as JSON.
func request(method, version, capabilities, params string) string {
	var meta []string
	if version != "" {
		meta = append(meta, `"io.modelcontextprotocol/protocolVersion":`+version)
	}
	if capabilities != "" {
		meta = append(meta, `"io.modelcontextprotocol/clientCapabilities":`+capabilities)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{%s}}}`, method, params,
		strings.Join(meta, ","))
}

// classify classifies a message that arrived on a stream.
func classify(m *jsonrpc.Message) revision.Class {
	return revision.Classify(revision.Input{Message: m})
}

func open(t *testing.T, s *Server, m *jsonrpc.Message, who principal.Principal) (*rpc.Call, *jsonrpc.Error) {
	t.Helper()
	c, err := s.NewCall(rpc.Sender{Who: who}, m, classify(m))
	if err == nil {
		err = s.Begin(t.Context(), c, nil)
	}
	return c, err
}

// On a stream, where only _meta declares the version. A later revision may have other metadata.
func TestUnsupportedVersionErrorListsSupportedVersions(t *testing.T) {
	for _, raw := range []string{
		request(mcp.MethodListTools, `"2199-01-01"`, "{}", ""),
		request(mcp.MethodListTools, `"2199-01-01"`, "", ""),
		request(mcp.MethodListTools, `"2199-01-01"`, "null", ""),
		request(mcp.MethodListTools, `"2199-01-01"`, `[],"io.modelcontextprotocol/clientInfo":7,"progressToken":{}`, ""),
	} {
		_, err := open(t, newServer(), parse(t, raw), principal.Anonymous)
		must.That(t, err != nil && err.Code == mcp.CodeUnsupportedVersion, "%s: %v", raw, err)
		var data mcp.UnsupportedVersionData
		must.Do(t, json.Unmarshal(err.Data, &data))
		want := mcp.UnsupportedVersionData{Supported: Discover(mcp.ServerCapabilities{}, "",
			mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate}).SupportedVersions,
			Requested: "2199-01-01"}
		must.CheckEqual(t, cmp.Diff(want, data), "")
		must.CheckThat(t, slices.Contains(data.Supported, "2026-07-28"), "supported: %q", data.Supported)
	}
}

// Rule J13: the capabilities of a request are not used for later requests.
func TestCapabilitiesApplyToOneRequest(t *testing.T) {
	s := newServer()
	for _, tc := range []struct {
		capabilities string
		sampling     bool
	}{{`{"sampling":{}}`, true}, {`{}`, false}, {`{"sampling":{}}`, true}} {
		c, err := open(t, s, parse(t, request(mcp.MethodListTools, `"2026-07-28"`, tc.capabilities, "")),
			principal.Anonymous)
		must.That(t, err == nil, "%v", err)
		must.CheckEqual(t, c.Peer().Capabilities.Sampling != nil, tc.sampling, tc.capabilities)
	}
}

func TestOpenReadsMetadata(t *testing.T) {
	who := must.Get(principal.New("https://issuer.example", "ada", ""))(t)
	raw := `{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"cursor":"c","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"n",` +
		`"version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}}}`
	c, fault := open(t, newServer(), parse(t, raw), who)
	must.That(t, fault == nil, "%v", fault)
	must.CheckThat(t, c.Method() == mcp.MethodListTools && c.ID() == jsonrpc.StringID("x") &&
		c.Revision() == mcp.V20260728 && c.Principal() == who && c.ProgressToken == jsonrpc.StringID("p") &&
		c.Peer().Info.Name == "n" && c.Stream == nil, "%+v", c)
	cursor, _ := c.Params().Get("cursor")
	must.CheckThat(t, string(cursor) == `"c"`, "cursor %s", cursor)
	for _, bad := range []string{`"progressToken":1.5`, `"progressToken":{}`,
		`"io.modelcontextprotocol/clientInfo":"n"`,
		`"io.modelcontextprotocol/clientInfo":{"name":7}`} {
		m := parse(t, strings.Replace(request(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), `"_meta":{`,
			`"_meta":{`+bad+
				`,`, 1))
		_, err := open(t, newServer(), m, who)
		must.CheckThat(t, err != nil && err.Code == jsonrpc.CodeInvalidParams, "%s: %v", bad, err)
	}
}

func TestServeAppendsOneResponse(t *testing.T) {
	s := newServer()
	for body, want := range map[string]string{
		request(mcp.MethodListTools, `"2026-07-28"`, "{}",
			""): `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",` +
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}}`,
		request("unknown", `"2026-07-28"`, "{}",
			""): `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method \"unknown\" is not available in ` +
			`revision 2026-07-28 of this server"}}`,
	} {
		m := parse(t, body)
		got := serve(t.Context(), s, []byte("x"), m, principal.Anonymous)
		must.CheckEqual(t, cmp.Diff("x"+want, string(got)), "")
	}
}
