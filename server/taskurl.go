package server

import (
	"context"
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// afterURLs returns the outcome of a handler that runs in a task or a parked call. If the handler
// returned a *call.URLRequiredError, the task asks for the URL elicitations, and the handler runs again
// when the user has finished, up to maxURLRounds times. Outside of a task the client would repeat the
// call: in 2025-11-25 because of the error, and in 2026-07-28 with the answers.
func (s *Server) afterURLs(run *tasks.Run, entry *toolEntry, arguments json.RawMessage, result *mcp.CallToolResult, err error) (*mcp.CallToolResult, error) {
	for range maxURLRounds {
		required, ok := errors.AsType[*call.URLRequiredError](err)
		if !ok || run.Call.CheckURLs(required) != nil {
			break
		}
		if err := s.elicitURLs(run.Call, required); err != nil {
			return nil, err
		}
		run.Restart()
		result, err = s.result(run.Call.Context(), run.Call, entry, arguments)
	}
	return result, err
}

// elicitURLs asks the user to open the URLs of e, and waits until the user has finished there.
func (s *Server) elicitURLs(c *rpc.Call, e *call.URLRequiredError) error {
	ctx := c.Context()
	for asked := false; !asked; { // the first iterations find the answers of earlier rounds
		requests := c.InputRequestsFor(e)
		for _, q := range requests {
			asked = asked || !c.Answered(q)
		}
		answers, err := c.RequestInput(ctx, requests...)
		if err != nil {
			return err
		}
		for i, raw := range answers {
			var answer mcp.ElicitResult
			if err := jsonv2.Unmarshal(raw, &answer); err != nil || answer.Action != mcp.ElicitAccept {
				return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the user declined to open %s, which this call requires", e.URLs[i].URL)
			}
		}
	}
	for _, u := range e.URLs {
		if u.Done == nil {
			continue
		}
		limit := orDefault(u.Within, urlTime)
		if _, err := rpc.Poll(ctx, min(limit, rpc.MaxURLTime), rpc.RecoverPanics(u.Done)); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			// The handler decides whether the user has finished.
			s.logger().WarnContext(ctx, "cannot wait for the end of a URL elicitation: RequiredURL.Done failed", "error", err)
		}
	}
	return nil
}
