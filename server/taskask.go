package server

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// taskInputRequester sends the questions of a task to the client of a tasks/result request, with the related
// task in their _meta (2025-11-25, basic/utilities/tasks, Input Required Status).
type taskInputRequester struct {
	server  *Server
	call    *rpc.Call
	asked   map[string]bool // keys; used by one goroutine
	running sync.WaitGroup
}

// taskQuestion identifies a question that is being asked.
type taskQuestion struct{ task, key string }

// ask sends the open questions that it has not sent yet.
func (a *taskInputRequester) ask(ctx context.Context, t *tasks.Task) {
	if a.call.InputRequester == nil {
		return // the client receives nothing before the response; it may ask again on another stream
	}
	for key, q := range t.Open() {
		if a.asked[key] || !canAnswer(a.call, q) {
			continue // another client of the principal may answer
		}
		id := taskQuestion{t.ID, key}
		if _, other := a.server.tasks.asking.LoadOrStore(id, true); other {
			continue // another tasks/result request asks it
		}
		a.asked[key] = true
		a.running.Go(func() {
			a.askOne(ctx, t, key, q)
			a.server.tasks.asking.Delete(id)
			if ctx.Err() != nil { // the other request can ask now
				a.server.tasks.store.Announce(context.WithoutCancel(ctx), a.call.Principal(), t.ID)
			}
		})
	}
}

// canAnswer reports whether the client of c has declared the capability for an input request: the server
// must not use others (2025-11-25, basic/lifecycle, Operation). The client that has created the task may
// have been another one.
func canAnswer(c *rpc.Call, q mcp.InputRequest) bool {
	declared := c.Peer().Capabilities
	switch q.Method {
	case mcp.MethodElicit:
		if mode, _ := jsonrpc.Get(q.Params, "mode"); jsonrpc.Unquote(mode) == mcp.ElicitModeURL {
			return declared.Elicitation.SupportsURL()
		}
		return declared.Elicitation.SupportsForm()
	case mcp.MethodCreateMessage:
		var params mcp.CreateMessageParams
		return declared.Sampling != nil && schema.Decode(q.Params, &params) == nil &&
			(declared.Sampling.Tools != nil || !params.UsesTools())
	case mcp.MethodListRoots:
		return declared.Roots != nil
	}
	return true
}

func (a *taskInputRequester) askOne(ctx context.Context, t *tasks.Task, key string, q mcp.InputRequest) {
	params := revision.WithRelatedTask(q.Params, t.ID)
	answers, err := a.call.InputRequester.RequestInput(ctx, a.call, []rpc.InputRequest{{
		Method: q.Method, Params: params, Within: time.Duration(t.Questions[key].Within) * time.Millisecond,
	}})
	var rejected *call.AnswerError
	switch {
	case errors.As(err, &rejected):
		if t.External {
			break // the engine has no use for the error; the question stays open
		}
		_, err = a.server.tasks.store.Update(ctx, a.call.Principal(), t.ID,
			func(t *tasks.Task) error { return t.Reject(key, rejected.Err) })
	case err == nil:
		err = a.server.answerTask(ctx, t, map[string]json.RawMessage{key: answers[0]})
	}
	if err != nil && ctx.Err() == nil {
		a.server.logger().WarnContext(ctx, "a question of a task has no answer", tasks.LogID(t.ID), "error", err)
	}
}

// afterURLs returns the outcome of a handler that runs in a task or a parked call. If the handler
// returned a *call.URLRequiredError, the task asks for the URL elicitations, and the handler runs again
// when the user has finished, up to maxURLRounds times. Outside of a task the client would repeat the
// call: in 2025-11-25 because of the error, and in 2026-07-28 with the answers.
func (s *Server) afterURLs(
	run *tasks.Run, entry *toolEntry, arguments json.RawMessage, result *mcp.CallToolResult, err error,
) (*mcp.CallToolResult, error) {
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
				return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the user declined to open %s, which this call requires",
					e.URLs[i].URL)
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
