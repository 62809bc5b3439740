package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// urlRequired returns the error that asks the client to have its user open URLs. Clients of 2025-11-25 receive
// the error of the server, in which only the messages for the user are changed.
func (g *Gateway) urlRequired(ctx context.Context, serverName string, reported *jsonrpc.Error) error {
	var required mcp.URLElicitationRequiredData
	if err := schema.Decode(reported.Data, &required); err != nil {
		return fmt.Errorf("server %q requires URLs, but its error is invalid: %v", serverName, err)
	}
	c := rpc.From(ctx)
	if c == nil || c.Revision() == mcp.V20251125 {
		attributed := *reported
		attributed.Data = g.attributeURLs(serverName, reported.Data)
		return &attributed
	}
	e := &call.URLRequiredError{}
	for _, one := range required.Elicitations {
		e.URLs = append(e.URLs, call.RequiredURL{URL: one.URL, Message: upstream.Attribute(g.host, serverName, one.Message), ID: one.ElicitationID})
	}
	return e
}

// attributeURLs attributes the messages in the data of an error that requires URLs. Other members do not change.
func (g *Gateway) attributeURLs(serverName string, data json.RawMessage) json.RawMessage {
	return mapMember(data, "elicitations", func(list json.RawMessage) json.RawMessage {
		var elicitations []json.RawMessage
		_ = schema.Decode(list, &elicitations) // it was decoded before
		mapped := []byte{'['}
		for i, one := range elicitations {
			if i > 0 {
				mapped = append(mapped, ',')
			}
			mapped = append(mapped, mapMember(one, "message", func(message json.RawMessage) json.RawMessage {
				return jsonrpc.AppendString(nil, upstream.Attribute(g.host, serverName, jsonrpc.Unquote(message)))
			})...)
		}
		return append(mapped, ']')
	})
}

// mapMember returns an object in which f has replaced the value of one member.
func mapMember(object json.RawMessage, name string, f func(json.RawMessage) json.RawMessage) json.RawMessage {
	mapped := []byte{'{'}
	for member, value := range jsonrpc.All(object) {
		if len(mapped) > 1 {
			mapped = append(mapped, ',')
		}
		if member == name {
			value = f(value)
		}
		mapped = append(append(jsonrpc.AppendString(mapped, member), ':'), value...)
	}
	return append(mapped, '}')
}
