package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

func resultsIn(t *testing.T, kv store.Store, log io.Writer, keys ...[]byte) *results {
	t.Helper()
	r := must.Get(newResults(kv, keys, slog.New(slog.NewTextHandler(log, nil))))(t)
	return r
}

func (r *results) has(t *testing.T, principal, uri string) bool {
	t.Helper()
	_, err := r.get(t.Context(), "s", principal, uri)
	must.That(t, err == nil || errors.Is(err, call.ErrResourceNotFound), "%v", err)
	return err == nil
}

func TestStoredResultsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		size, stored, kept int
	}{
		"by number": {1, maxResults + 20, maxResults},
		"by bytes":  {10 << 20, 20, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := resultsIn(t, nil, io.Discard)
				other, err := r.put(t.Context(), "s", "bob/", &storedResult{Contents: &mcp.ResourceContents{Text: "x"}})
				must.Do(t, err)
				var uris []string
				for range c.stored {
					time.Sleep(time.Second)
					uri, err := r.put(t.Context(), "s", "ada/",
						&storedResult{Contents: &mcp.ResourceContents{Text: strings.Repeat("x", c.size)}})
					must.Do(t, err)
					uris = append(uris, uri)
				}
				for i, uri := range uris {
					must.CheckEqual(t, r.has(t, "ada/", uri), i >= c.stored-c.kept, i, c.stored)
				}
				must.CheckThat(t, r.has(t, "bob/", other) && !r.has(t, "ada/", other) &&
					!r.has(t, "bob/", uris[len(uris)-1]), "the results of principals are not apart")
			})
		})
	}
}

func TestStoredResultsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		r := resultsIn(t, memory, io.Discard, make([]byte, 32))
		uri, err := r.put(t.Context(), "s", "ada/", &storedResult{Contents: &mcp.ResourceContents{Text: "secret"}})
		must.Do(t, err)
		plain := &results{kv: memory}
		item := must.Get(memory.Get(t.Context(), resultKey("ada/", "s", strings.TrimPrefix(uri, ResultURI+"s/"))))(t)
		must.CheckThat(t, !strings.Contains(string(item.Value), "secret"), "the result is not encrypted")
		if _, err := plain.get(t.Context(), "s", "ada/", uri); err == nil {
			t.Error("the result is read without the key")
		}
		time.Sleep(resultTTL - time.Second)
		must.CheckThat(t, r.has(t, "ada/", uri), "the result has expired too early")
		time.Sleep(2 * time.Second)
		must.CheckThat(t, !r.has(t, "ada/", uri), "the result has not expired")
	})
}

// The caller is anonymous and there is no store, or the store fails.
func TestResultThatCannotBeStoredIsCut(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := &Host{}
		h.results = resultsIn(t, nil, io.Discard)
		if broken {
			h.results.kv = fullKV{store.NewMemory()}
		}
		s := &supervisor{name: "s", host: h, config: ServerConfig{MaxResult: 10}, logger: h.logger()}
		whole := &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("0123456789äöü")},
			ResultBase: mcp.ResultBase{Source: []byte(`{"content":[]}`)}}
		cut := must.Get(s.limited(t.Context(), "tool", nil, whole))(t)
		must.CheckEqual(t, cut.Content[0].(*mcp.TextContent).Text, "0123456789")
		text := fmt.Sprint(cut.Content[1].(*mcp.TextContent).Text)
		must.CheckThat(t, strings.Contains(text, "cannot be stored") == broken && (len(cut.Content) == 2) == broken,
			"%s", text)
	}
}

// fullKV is a store without space.
type fullKV struct{ store.Store }

func (fullKV) Add(context.Context, string, string, time.Duration, int) error { return store.ErrFull }

// brokenKV is a store that cannot be reached.
type brokenKV struct{ store.Store }

func (brokenKV) Get(context.Context, string) (store.Item, error) {
	return store.Item{}, errors.New("dial tcp 192.0.2.1:6379: connection refused")
}

// The caller receives an error without details and must not learn where the store is.
// The log contains them.
func TestErrorsOfTheStoreOfResultsHaveNoDetails(t *testing.T) {
	var log bytes.Buffer
	r := resultsIn(t, brokenKV{}, &log)
	_, err := r.get(t.Context(), "s", "ada", ResultURI+"s/1")
	must.CheckThat(t, err != nil && !strings.Contains(err.Error(), "192.0.2.1") &&
		strings.Contains(log.String(), "192.0.2.1"), "%v; log: %s", err, log.String())
}
