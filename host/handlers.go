//lint:file-ignore SA1019 deprecated features must still work

package host

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// setHandlers makes the functions of the Host or its Dialer answer the input requests of a server, or forwards
// them. It sets s.local.
func (s *supervisor) setHandlers() {
	h, d := s.host, &s.dialer
	forwards := func(set bool, kinds rpc.InputKinds) bool {
		if set {
			s.local |= kinds
		}
		return h.forwards && !set
	}
	elicit, elicitURL, sample, roots, onLog := h.Elicit, h.ElicitURL, h.Sample, h.Roots, h.OnLog
	if own := d.Elicit; elicit == nil && own != nil {
		elicit = func(ctx context.Context, _ string, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return own(ctx, form)
		}
	}
	if own := d.ElicitURL; elicitURL == nil && own != nil {
		elicitURL = func(ctx context.Context, _ string, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return own(ctx, request)
		}
	}
	if own := d.Sample; sample == nil && own != nil {
		sample = func(ctx context.Context, _ string, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return own(ctx, params)
		}
	}
	switch own := d.Roots; {
	case s.config.Roots != nil:
		roots = func(context.Context, string) ([]mcp.Root, error) { return s.config.Roots, nil }
	case roots == nil && own != nil:
		roots = func(ctx context.Context, _ string) ([]mcp.Root, error) { return own(ctx) }
	}
	if forwards(elicit != nil, rpc.FormInput) {
		elicit = h.forwardElicit
	}
	if forwards(elicitURL != nil, rpc.URLInput) {
		elicitURL = h.forwardElicitURL
	}
	if forwards(sample != nil, rpc.SamplingInput|rpc.SamplingToolsInput) {
		sample, d.SampleTools = h.forwardSample, true
	}
	if forwards(roots != nil, rpc.RootsInput) {
		roots = h.forwardRoots
	}
	if forwards(onLog != nil || d.OnLog != nil, 0) {
		onLog = forwardLog
	}
	if elicit != nil {
		d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return s.elicit(ctx, form, elicit)
		}
	}
	if elicitURL != nil {
		d.ElicitURL = func(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return s.elicit(ctx, request, elicitURL)
		}
	}
	if sample != nil {
		d.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return s.sample(ctx, params, sample)
		}
	}
	if roots != nil {
		d.Roots = func(ctx context.Context) ([]mcp.Root, error) { return s.listRoots(s.withOnlySession(ctx), roots) }
	}
	if onLog != nil {
		d.OnLog = func(ctx context.Context, message mcp.LoggingMessageParams) { onLog(ctx, s.name, message) }
	}
}
