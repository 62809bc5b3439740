package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// upstream is a server that answers requests with results as they are, by method. A text that begins with "error " is
// an error. In a result, <uri> stands for the URI of the request. The revision is 2025-11-25, unless at changes it.
type upstream map[string]string

// start serves until the test ends.
func (u upstream) start(t *testing.T, name string) host.ServerConfig {
	near, far := transport.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			raw, err := far.Read(context.Background())
			if err != nil {
				return
			}
			m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
			if err != nil || m.Kind != jsonrpc.Request {
				continue
			}
			if err := far.Write(context.Background(), u.answer(&m)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	return host.ServerConfig{Name: name, Target: client.Conn(near)}
}

// startHTTP serves JSON over HTTP until the test ends.
func (u upstream) startHTTP(t *testing.T, name string) host.ServerConfig {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Request {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(u.answer(&m))
	}))
	t.Cleanup(s.Close)
	return host.ServerConfig{Name: name, Target: client.URL(s.URL)}
}

func (u upstream) answer(m *jsonrpc.Message) []byte {
	result, ok := u[m.Method]
	if !ok && m.Method == mcp.MethodInitialize {
		result, ok = initialized(mcp.V20251125), true
	}
	if !ok {
		return jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no %s", m.Method), false)
	}
	if text, failed := strings.CutPrefix(result, "error "); failed {
		var e jsonrpc.Error
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			panic(err)
		}
		return jsonrpc.AppendError(nil, m.ID, &e, false)
	}
	uri, _ := m.Params.Get("uri")
	return jsonrpc.AppendResult(nil, m.ID, []byte(strings.ReplaceAll(result, "<uri>", jsonrpc.Unquote(uri))))
}

const offered = `"capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}}`

func initialized(r mcp.Revision) string {
	return `{"protocolVersion":"` + string(r) + `",` + offered + `,"serverInfo":{"name":"up","version":"1"}}`
}

// at returns a copy of u in another revision.
func (u upstream) at(r mcp.Revision) upstream {
	u = maps.Clone(u)
	if r.Modern() {
		u[mcp.MethodDiscover] = `{"resultType":"complete","supportedVersions":["` + string(r) + `"],` + offered +
			`,"ttlMs":0,"cacheScope":"private"}`
	} else {
		u[mcp.MethodInitialize] = initialized(r)
	}
	return u
}

func TestMain(m *testing.M) {
	if address := os.Getenv(relayAddress); address != "" {
		os.Exit(relay(address))
	}
	goleak.VerifyTestMain(m)
}
