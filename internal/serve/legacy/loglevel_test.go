package legacy_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// levelReplica returns one of several servers that share a store. Its only method returns
// the log level of the call.
func levelReplica(kv store.KV) *legacy.Sessions {
	engine := rpc.NewEngine(rpc.Handlers{
		mcp.MethodListTools: func(_ context.Context, c *rpc.Call) (any, error) {
			level := string(c.LogLevel)
			result := &mcp.ListToolsResult{Tools: []mcp.Tool{}}
			result.NextCursor = &level
			return result, nil
		},
		mcp.MethodSetLevel: func(ctx context.Context, c *rpc.Call) (any, error) {
			raw, _ := c.Params().Get("level")
			if err := c.SessionNotifier.SetLevel(ctx, mcp.LoggingLevel(jsonrpc.Unquote(raw))); err != nil {
				return nil, err
			}
			return &mcp.EmptyResult{}, nil
		},
	}, nil)
	return legacy.NewSessions(&legacy.Server{Engine: engine, Peers: &rpc.PeerCache{}}, kv, legacy.SessionLimits{})
}

func serve(t *testing.T, l *legacy.StoredSession, message string) string {
	t.Helper()
	m := must.Get(jsonrpc.Parse([]byte(message), jsonrpc.Limits{}))(t)
	var reply []byte
	l.Serve(t.Context(), &reply, &m, nil)
	return string(reply)
}

func TestLogLevelAppliesOnEveryReplica(t *testing.T) {
	kv := store.NewMemory()
	one, two := levelReplica(kv), levelReplica(kv)
	state := legacy.State{Revision: mcp.V20251125, Info: []byte(`{}`), Capabilities: []byte(`{}`)}
	id := must.Get(one.Create(t.Context(), principal.Anonymous, "192.0.2.1", state))(t)
	open := func(s *legacy.Sessions) *legacy.StoredSession {
		t.Helper()
		l := must.Get(s.Use(t.Context(), principal.Anonymous, id, false))(t)
		t.Cleanup(l.Release)
		return l
	}
	wantLevel := func(l *legacy.StoredSession, want mcp.LoggingLevel) {
		t.Helper()
		if got, want := serve(t, l, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
			`{"jsonrpc":"2.0","id":1,"result":{"nextCursor":"`+string(want)+`","tools":[]}}`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	here, there := open(one), open(two) // both replicas use the session
	wantLevel(here, mcp.LevelInfo)
	must.Equal(t, serve(t, here,
		`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"alert"}}`),
		`{"jsonrpc":"2.0","id":2,"result":{}}`)
	must.Do(t, there.MarkReady(t.Context())) // a write of the state keeps the level
	wantLevel(here, mcp.LevelAlert)
	wantLevel(open(two), mcp.LevelAlert)
	wantLevel(open(one), mcp.LevelAlert)
}
