//lint:file-ignore SA1019 deprecated features must still work

package host

import (
	"context"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// setHandlers makes the functions of the Host answer the requests of a server, or forwards them. It
// returns the kinds of input requests that are not forwarded.
func (h *Host) setHandlers(d *client.Dialer, server string) (local rpc.InputKinds) {
	choose := func(set, inDialer bool, kinds rpc.InputKinds) (forward bool) {
		if set || inDialer {
			local |= kinds
		}
		return h.Forward && !set && !inDialer
	}
	elicit, elicitURL, sample, roots, onLog := h.Elicit, h.ElicitURL, h.Sample, h.Roots, h.OnLog
	if choose(elicit != nil, d.Elicit != nil, rpc.FormInput) {
		elicit = h.forwardElicit
	}
	if choose(elicitURL != nil, d.ElicitURL != nil, rpc.URLInput) {
		elicitURL = h.forwardElicitURL
	}
	if choose(sample != nil, d.Sample != nil, rpc.SamplingInput|rpc.SamplingToolsInput) {
		sample, d.SampleTools = h.forwardSample, true
	}
	if choose(roots != nil, d.Roots != nil, rpc.RootsInput) {
		roots = h.forwardRoots
	}
	if choose(onLog != nil, d.OnLog != nil, 0) {
		onLog = forwardLog
	}
	if elicit != nil {
		d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return elicit(ctx, server, form)
		}
	}
	if elicitURL != nil {
		d.ElicitURL = func(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return elicitURL(ctx, server, request)
		}
	}
	if sample != nil {
		d.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return sample(ctx, server, params)
		}
	}
	if roots != nil {
		d.Roots = func(ctx context.Context) ([]mcp.Root, error) { return roots(ctx, server) }
	}
	if onLog != nil {
		d.OnLog = func(ctx context.Context, message mcp.LoggingMessageParams) { onLog(ctx, server, message) }
	}
	return local
}
