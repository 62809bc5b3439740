package host

import (
	"context"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// setHandlers makes the functions of the Host answer the requests of a server.
func (h *Host) setHandlers(d *client.Dialer, server string) {
	if f := h.Elicit; f != nil {
		d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return f(ctx, server, form)
		}
	}
	if f := h.ElicitURL; f != nil {
		d.ElicitURL = func(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return f(ctx, server, request)
		}
	}
	if f := h.Sample; f != nil {
		d.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return f(ctx, server, params)
		}
	}
	if f := h.Roots; f != nil {
		d.Roots = func(ctx context.Context) ([]mcp.Root, error) { return f(ctx, server) }
	}
	if f := h.OnLog; f != nil {
		d.OnLog = func(ctx context.Context, message mcp.LoggingMessageParams) { f(ctx, server, message) }
	}
}
