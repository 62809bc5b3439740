package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// statusRecorder is what many programs wrap the ResponseWriter in. It has neither Flush nor Unwrap.
type statusRecorder struct {
	w      http.ResponseWriter
	status int
}

func (r *statusRecorder) Header() http.Header         { return r.w.Header() }
func (r *statusRecorder) Write(b []byte) (int, error) { return r.w.Write(b) }
func (r *statusRecorder) WriteHeader(s int)           { r.status = s; r.w.WriteHeader(s) }

// transparent is a wrapper with Unwrap.
type transparent struct{ statusRecorder }

func (r *transparent) Unwrap() http.ResponseWriter { return r.w }

func TestAWrapperWithoutFlushIsNamedAndItsQuestionsFail(t *testing.T) {
	for _, wrapped := range []bool{true, false} {
		for _, revision := range mcp.Revisions() {
			log := new(syncbuffer.Buffer)
			s := quiet()
			s.Logger = slog.New(slog.NewTextHandler(log, nil))
			server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
				answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
				return answer.Name, err
			})
			server.AddTool(s, mcp.Tool{Name: "plain"}, func(ctx context.Context, _ struct{}) (string, error) {
				return "done", server.Progress(ctx, 1, 2, "half")
			})
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if recorder := (statusRecorder{w: w}); wrapped {
					s.ServeHTTP(&recorder, r)
				} else {
					s.ServeHTTP(&transparent{recorder}, r)
				}
			}))
			c, err := (&client.Dialer{Revision: revision, Logger: slog.New(slog.DiscardHandler),
				Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return mcp.AcceptElicit(map[string]string{"Name": "Ada"})
				}}).Dial(t.Context(), client.URL(endpoint.URL))
			if revision == mcp.V20241105 && wrapped {
				must.CheckThat(t, err != nil, "HTTP+SSE works without event streams")
			} else {
				must.Do(t, err)
				plain, err := c.CallTool(t.Context(), "plain", nil)
				must.CheckThat(t, err == nil && !plain.IsError, "%s: %v, %v", revision, plain, err)
				asked, err := c.CallTool(t.Context(), "ask", nil)
				works := revision.Modern() || !wrapped && revision >= mcp.V20250618
				must.CheckThat(t, err == nil && asked.IsError != works,
					"%s, wrapped %v: %v, %v", revision, wrapped, asked, err)
				c.Close()
			}
			if n := strings.Count(log.String(), "*server_test.statusRecorder"); n != 1 && wrapped || n != 0 && !wrapped {
				t.Errorf("%s: %d lines of the log name the wrapper: %s", revision, n, log.String())
			}
			_ = s.Shutdown(t.Context())
			endpoint.CloseClientConnections()
			endpoint.Close()
		}
	}
}
