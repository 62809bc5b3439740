package modern

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// declared is what the client declares about itself in each request. A request on behalf of a caller
// declares only the input requests that the caller can answer.
type declared struct {
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	encoded      [rpc.AllInputKinds + 1]atomic.Pointer[[]byte] // by the kinds of input requests
}

// meta returns the members of _meta for a request, without braces.
func (d *declared) meta(kinds rpc.InputKinds) ([]byte, error) {
	kinds &= rpc.AllInputKinds
	if known := d.encoded[kinds].Load(); known != nil {
		return *known, nil
	}
	info, err := json.Marshal(d.info)
	if err != nil {
		return nil, fmt.Errorf("client info: %w", err)
	}
	capabilities, err := json.Marshal(limited(d.capabilities, kinds))
	if err != nil {
		return nil, fmt.Errorf("client capabilities: %w", err)
	}
	meta := fmt.Appendf(nil, `"%s":"%s","%s":%s,"%s":%s`,
		mcp.MetaProtocolVersion, mcp.V20260728, mcp.MetaClientInfo, info, mcp.MetaClientCapabilities, capabilities)
	d.encoded[kinds].Store(&meta)
	return meta, nil
}

// limited returns the capabilities without those for other kinds of input requests.
func limited(c mcp.ClientCapabilities, kinds rpc.InputKinds) mcp.ClientCapabilities {
	if form, url := c.Elicitation.SupportsForm(), c.Elicitation.SupportsURL(); form && kinds&rpc.FormInput == 0 || url && kinds&rpc.URLInput == 0 {
		c.Elicitation = elicitation(form && kinds&rpc.FormInput != 0, url && kinds&rpc.URLInput != 0)
	}
	switch {
	case kinds&rpc.SamplingInput == 0:
		c.Sampling = nil
	case c.Sampling != nil && kinds&rpc.SamplingToolsInput == 0:
		without := *c.Sampling
		without.Tools = nil
		c.Sampling = &without
	}
	if kinds&rpc.RootsInput == 0 {
		c.Roots = nil
	}
	return c
}

func elicitation(form, url bool) *mcp.ElicitationCapability {
	if !form && !url {
		return nil
	}
	c := new(mcp.ElicitationCapability)
	if form {
		c.Form = &mcp.Supported{}
	}
	if url {
		c.URL = &mcp.Supported{}
	}
	return c
}

// receiveLog passes a log message to OnLog, with the context of its request if that is known. Over
// byte streams the message does not name it.
func (c *Client) receiveLog(stream jsonrpc.ID, m *jsonrpc.Message) {
	if c.OnLog == nil {
		return
	}
	if params, ok := revision.LogOf(m); ok {
		origin, _ := c.OriginOf(stream, func(r *rpc.Request) bool { return r.Meta[mcp.MetaLogLevel] != nil })
		c.OnLog(origin.Context(context.Background()), params)
	}
}
