package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// serverWithHeaders has a tool that returns the headers that its handler can read.
func serverWithHeaders(t *testing.T) (s *server.Server, url string) {
	s = &server.Server{Name: "s", AllowedOrigins: []string{"https://app.example"},
		Headers: func() []string { return []string{"X-Absent", "X-Key"} }}
	server.AddTool(s, mcp.Tool{Name: "headers"}, func(ctx context.Context, _ struct{}) (http.Header, error) {
		return server.HeaderOf(ctx), nil
	})
	return s, wiretest.Serve(t, s)
}

func TestHandlersReadTheHeadersThatTheServerNames(t *testing.T) {
	_, url := serverWithHeaders(t)
	for _, r := range mcp.Revisions() {
		for want, header := range map[string]http.Header{
			`{"X-Key":["mine"]}`: {"X-Key": {"mine"}, "X-Other": {"other"}}, `{}`: {"X-Other": {"other"}},
		} {
			c := must.Get((&client.Dialer{Revision: r}).Dial(t.Context(), &client.HTTPTarget{URL: url, Header: header}))(t)
			result := must.Get(c.CallTool(t.Context(), "headers", nil))(t)
			must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, want, r)
			c.Close()
		}
	}
}

// A Server can be mounted in a handler whose context is that of another request.
func TestHeadersOfAnotherRequestAreNotRead(t *testing.T) {
	inner, _ := serverWithHeaders(t)
	outer := &server.Server{Name: "outer", Headers: inner.Headers}
	server.AddTool(outer, mcp.Tool{Name: "relay"}, func(ctx context.Context, _ struct{}) (string, error) {
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r.WithContext(context.WithoutCancel(ctx)))
		}))
		defer at.Close()
		c, err := client.Dial(ctx, client.URL(at.URL))
		if err != nil {
			return "", err
		}
		defer c.Close()
		result, err := c.CallTool(ctx, "headers", nil)
		if err != nil {
			return "", err
		}
		return result.Content[0].(*mcp.TextContent).Text, nil
	})
	at := httptest.NewServer(outer)
	defer at.Close()
	target := &client.HTTPTarget{URL: at.URL, Header: http.Header{"X-Key": {"mine"}}}
	c := must.Get(client.Dial(t.Context(), target))(t)
	defer c.Close()
	result := must.Get(c.CallTool(t.Context(), "relay", nil))(t)
	must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, "{}")
}

func TestPagesMaySendTheHeadersThatHandlersRead(t *testing.T) {
	_, url := serverWithHeaders(t)
	r := must.Get(http.NewRequest(http.MethodOptions, url, nil))(t)
	r.Header = http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"POST"},
		"Access-Control-Request-Headers": {"x-key, x-other, authorization"}}
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	must.CheckEqual(t, resp.Header.Get("Access-Control-Allow-Headers"), "x-key, authorization")
}
