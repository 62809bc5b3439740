//lint:file-ignore SA1019 deprecated features must still work

package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// The functions of this file let the requests of a server pass if its limits, the policy and the approver do, record
// them, and answer them.

// codeRejected is the code of the error for a sampling request that the user rejects (2025-11-25, client/sampling, Error
// Handling).
const codeRejected = -1

func (s *supervisor) elicit(ctx context.Context, params *mcp.ElicitParams, answer func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error)) (*mcp.ElicitResult, error) {
	return pass(ctx, s, s.elicitation(params), func() (*mcp.ElicitResult, string, error) {
		result, err := answer(ctx, s.name, params)
		if err != nil || result == nil {
			return result, "", err
		}
		return result, map[mcp.ElicitAction]string{mcp.ElicitDecline: "declined", mcp.ElicitCancel: "dismissed"}[result.Action], nil
	})
}

// elicitation describes an elicitation for the policy.
func (s *supervisor) elicitation(params *mcp.ElicitParams) *Request {
	described := *params
	described.Mode, described.Meta, described.Task = cmp.Or(params.Mode, mcp.ElicitModeForm), nil, nil
	return s.inputRequest(mcp.MethodElicit, KindElicitation, &described)
}

func (s *supervisor) sample(ctx context.Context, params *mcp.CreateMessageParams, answer func(context.Context, string, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)) (*mcp.CreateMessageResult, error) {
	limited := *params
	if most := s.config.InputLimits.maxTokens(); most > 0 {
		limited.MaxTokens = min(limited.MaxTokens, most)
	}
	described := limited
	described.Meta, described.Task = nil, nil
	r := s.inputRequest(mcp.MethodCreateMessage, KindSampling, &described)
	return pass(ctx, s, r, func() (*mcp.CreateMessageResult, string, error) {
		result, err := answer(ctx, s.name, &limited)
		return result, "", err
	})
}

func (s *supervisor) listRoots(ctx context.Context, answer func(context.Context, string) ([]mcp.Root, error)) ([]mcp.Root, error) {
	r := s.inputRequest(mcp.MethodListRoots, KindRoots, nil)
	result, err := pass(ctx, s, r, func() (*[]mcp.Root, string, error) {
		roots, err := answer(ctx, s.name)
		return &roots, "", err
	})
	if err != nil {
		return nil, err
	}
	return *result, nil
}

// inputRequest describes a request of the server for the policy.
func (s *supervisor) inputRequest(method, kind string, params any) *Request {
	r := &Request{Method: method, Server: s.name, Kind: kind, Arguments: json.RawMessage("{}")}
	if params != nil {
		// Params were decoded, so they encode. The policy and the approver see no arguments otherwise.
		r.Arguments, _ = schema.Marshal(params)
	}
	return r
}

// pass answers a request of the server if it is let through. Answer also returns the outcome, which is ok if it is
// empty. The error is for the server.
func pass[Result any](ctx context.Context, s *supervisor, r *Request, answer func() (result *Result, outcome string, err error)) (*Result, error) {
	p := s.host.newPassage(ctx, r)
	if err := p.admitInput(ctx, s); err != nil {
		return nil, err
	}
	result, outcome, err := answer()
	if s.host.Audit != nil {
		record := p.record(AuditDone)
		record.finish(nil, err, p.begin)
		if outcome != "" {
			record.Outcome = outcome
		}
		if errors.Is(err, errRepeated) {
			record = p.record(AuditAsked)
		}
		s.host.recordLater(ctx, record)
	}
	return result, err
}

// admitInput returns nil if a request of the server may be answered, and records the decision. The server does not
// receive the reason of the policy. The caller does if the server is one of 2026-07-28, whose call fails.
func (p *passage) admitInput(ctx context.Context, s *supervisor) error {
	err := s.inputs.allow(ctx, p.request)
	if err == nil {
		err = p.checkInput(ctx)
	}
	err = p.conclude(ctx, err)
	var limited *inputLimitError
	var denied *DeniedError
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case errors.Is(err, rpc.ErrInputRequired):
		return errRepeated
	case errors.As(err, &limited):
		err = &rpc.RejectedInputError{Wire: limited.wire, Err: err}
	case p.approval != "":
		err = &rpc.RejectedInputError{Wire: jsonrpc.Errorf(codeRejected, "user rejected the request %s", p.request.Method), Err: err}
	case errors.As(err, &denied):
		err = &rpc.RejectedInputError{Wire: jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s is denied: the client does not allow it", p.request.Method), Err: err}
	}
	s.inputs.log.Log(ctx, s.logger, slog.LevelInfo, "request of the server denied", slog.String("method", p.request.Method), slog.Any("error", err))
	return err
}

// checkInput asks the policy and the approver about a request of the server.
func (p *passage) checkInput(ctx context.Context) (err error) {
	h, r := p.host, p.request
	if p.decision, err = h.decide(ctx, r); h.Policy != nil {
		p.decided = true
	}
	if err != nil || p.decision.Action == Allow || r.Kind == KindElicitation { // the user sees what is asked, and can decline
		return err
	}
	if p.approval, err = h.approve(ctx, r, p.decision, nil); err != nil {
		return err
	}
	return p.sameDecision(ctx)
}

// admitURLs asks the policy about the URLs that the error of a request requires the user to open. It returns err if
// the policy allows them.
func (s *supervisor) admitURLs(ctx context.Context, r *Request, err error) error {
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || reported.Code != mcp.CodeURLElicitationRequired {
		return err
	}
	var required mcp.URLElicitationRequiredData
	if schema.Decode(reported.Data, &required) != nil {
		return err
	}
	for i := range required.Elicitations {
		p := s.host.newPassage(ctx, s.elicitation(&required.Elicitations[i]))
		if denial := p.conclude(ctx, p.checkInput(ctx)); denial != nil {
			return r.denied("the server requires the user to open a URL", denial)
		}
	}
	return err
}

// inputLimitError reports that a server has sent too many requests.
type inputLimitError struct {
	reason string
	wire   *jsonrpc.Error // for the server
}

func (e *inputLimitError) Error() string { return e.reason }
