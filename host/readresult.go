package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// callLimited is callTool for a server with a MaxResult. The options must have client.WithSource.
func (h *Host) callLimited(ctx context.Context, s *supervisor, r Request, arguments any, options []client.CallOption) (*mcp.CallToolResult, error) {
	var sent json.RawMessage // what a hook has made of the arguments
	result, err := guard(ctx, h, s, r, arguments, func(arguments any) (*mcp.CallToolResult, error) {
		if h.Policy != nil {
			sent, _ = arguments.(json.RawMessage) // guard has encoded them
		}
		return s.callTool(ctx, r.Name, arguments, options)
	})
	if err != nil {
		return nil, err
	}
	return s.limited(ctx, r.Name, sent, result)
}

// readResult reads a large result that is stored for the caller. The policy decides as about the call that made it.
func (h *Host) readResult(ctx context.Context, s *supervisor, uri string) (*mcp.ReadResourceResult, error) {
	who := callerOf(ctx).Principal.Key()
	if !h.guards() {
		stored, err := h.results.get(ctx, s.name, who, uri)
		return stored.read(), err
	}
	p := h.newPassage(ctx, &Request{Method: mcp.MethodReadResource, Server: s.name, Kind: KindResource, Name: uri})
	stored, err := h.results.get(ctx, s.name, who, uri)
	if err == nil {
		err = p.checkCall(ctx, s, stored)
	}
	if err = p.conclude(ctx, err); err != nil {
		return nil, err
	}
	if h.Audit != nil {
		record := p.record(AuditDone)
		record.finish(nil, nil, p.begin)
		record.Bytes = len(stored.Contents.Text)
		h.recordLater(ctx, record)
	}
	return stored.read(), nil
}

// checkCall returns nil if the call that made a result would be sent, or its user would be asked: the user has approved
// the call already.
func (p *passage) checkCall(ctx context.Context, s *supervisor, of *storedResult) (err error) {
	r := &Request{Method: mcp.MethodCallTool, Server: s.name, Kind: KindTool, Name: of.Tool, Arguments: of.Arguments, Caller: p.request.Caller}
	// The server may be down, or may have removed the tool since.
	if r.Tool, err = s.definition(ctx, r); err != nil && !errors.Is(err, ErrUnknownTool) {
		return err
	}
	p.decided = p.host.Policy != nil
	p.decision, err = p.host.decide(ctx, r)
	return err
}

// read returns the result of a request for the resource of r; nil for nil.
func (r *storedResult) read() *mcp.ReadResourceResult {
	if r == nil {
		return nil
	}
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{*r.Contents}}
}
