package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// The functions of this file check the requests of a server against its limits, the policy and the approver, and
// record and answer them.

// codeRejected is the code of the error for a sampling request that the user rejects (2025-11-25, client/sampling,
// Error Handling).
const codeRejected = -1

func (s *supervisor) elicit(ctx context.Context, params *mcp.ElicitParams,
	answer func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)) (*mcp.ElicitResult, error) {
	return pass(ctx, s, s.elicitation(params), func() (*mcp.ElicitResult, string, error) {
		result, err := answer(ctx, params)
		if err != nil || result == nil {
			return result, "", err
		}
		return result, map[mcp.ElicitAction]string{mcp.ElicitDecline: "declined",
			mcp.ElicitCancel: "dismissed"}[result.Action], nil
	})
}

// elicitation describes an elicitation for the policy.
func (s *supervisor) elicitation(params *mcp.ElicitParams) *Request {
	described := *params
	described.Mode, described.Meta, described.Task = cmp.Or(params.Mode, mcp.ElicitModeForm), nil, nil
	return s.inputRequest(mcp.MethodElicit, KindElicitation, &described)
}

func (s *supervisor) sample(ctx context.Context, params *mcp.CreateMessageParams,
	answer func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult,
		error)) (*mcp.CreateMessageResult, error) {
	limited := *params
	if most := cmp.Or(s.config.InputLimits.MaxTokens, defaultMaxTokens); most > 0 {
		limited.MaxTokens = min(limited.MaxTokens, most)
	}
	described := limited
	described.Meta, described.Task = nil, nil
	r := s.inputRequest(mcp.MethodCreateMessage, KindSampling, &described)
	return pass(ctx, s, r, func() (*mcp.CreateMessageResult, string, error) {
		result, err := answer(ctx, &limited)
		return result, "", err
	})
}

func (s *supervisor) listRoots(ctx context.Context,
	answer func(context.Context) ([]mcp.Root, error)) ([]mcp.Root, error) {
	r := s.inputRequest(mcp.MethodListRoots, KindRoots, nil)
	result, err := pass(ctx, s, r, func() (*[]mcp.Root, string, error) {
		roots, err := answer(ctx)
		return &roots, "", err
	})
	if err != nil {
		return nil, err
	}
	return *result, nil
}

// inputRequest describes a request of the server for the policy.
func (s *supervisor) inputRequest(method string, kind Kind, params any) *Request {
	r := &Request{Method: method, Server: s.name, Kind: kind, Arguments: json.RawMessage("{}")}
	if params != nil {
		// The params were decoded, so they can be encoded. If not, the policy and the approver see no
		// arguments.
		r.Arguments, _ = schema.Marshal(params)
	}
	return r
}

// pass answers a request of the server if the checks admit it. answer also returns the outcome; empty means ok.
// The error is for the server.
func pass[Result any](ctx context.Context, s *supervisor, r *Request,
	answer func() (result *Result, outcome string, err error)) (*Result, error) {
	p := s.host.newPassage(ctx, r)
	if err := p.admitInput(ctx, s); err != nil {
		return nil, err
	}
	result, outcome, err := answer()
	if s.host.Audit != nil {
		record := p.end("done", outcome, 0, err)
		if errors.Is(err, errRepeated) {
			record = p.record("asked")
		}
		s.host.recordLater(ctx, record)
	}
	return result, err
}

// admitInput returns nil if a request of the server may be answered, and records the decision. The server does not
// learn the reason that the policy gives. The caller does if the server speaks 2026-07-28, because the call then
// fails.
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
	case errors.Is(err, call.ErrInputRequired):
		return errRepeated
	case errors.As(err, &limited):
		err = &client.RejectedError{Wire: limited.wire, Err: err}
	case p.approval != "":
		err = &client.RejectedError{Wire: jsonrpc.Errorf(codeRejected, "user rejected the request %s",
			p.request.Method), Err: err}
	case errors.As(err, &denied):
		err = &client.RejectedError{Wire: jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
			"%s is denied: the client does not allow it", p.request.Method), Err: err}
	}
	s.inputs.log.Log(ctx, s.logger, slog.LevelInfo, "denied a request of the server",
		slog.String("method", p.request.Method), slog.Any("error", err))
	return err
}

// checkInput asks the policy and the approver about a request of the server.
func (p *passage) checkInput(ctx context.Context) (err error) {
	h, r := p.host, p.request
	if p.decision, err = h.decide(ctx, r); h.Policy != nil {
		p.decided = true
	}
	// the user sees what is asked, and can decline
	if err != nil || p.decision.Action == Allow || r.Kind == KindElicitation {
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
	wire   *jsonrpc.Error // error for the server
}

func (e *inputLimitError) Error() string { return e.reason }

// InputLimits limits the requests that a server sends: elicitation, sampling and roots. 0 means the default, and a
// negative number means no limit. A request beyond a limit is answered with an error.
type InputLimits struct {
	// PerCall limits the requests while the server serves one tool call, prompt or read. 0 means 64.
	PerCall int
	// PerMinute limits the requests for one caller in a minute, on average; as many may arrive at once. Callers are
	// told apart as in call.LimitRate. 0 means 600.
	PerMinute int
	// MaxTokens limits the tokens of one sampling request. A request for more is lowered to MaxTokens. 0 means 16,384.
	MaxTokens int64
}

// The defaults of InputLimits.
const (
	defaultInputsPerCall   = 64
	defaultInputsPerMinute = 600
	defaultMaxTokens       = 16 << 10
)

// inputLimiter applies the limits of one server. It is safe for concurrent use.
type inputLimiter struct {
	perCall int
	rate    call.Handler
	log     loglimit.Limiter // limits log lines about denied requests
}

func (l *inputLimiter) init(limits InputLimits) {
	l.perCall = cmp.Or(limits.PerCall, defaultInputsPerCall)
	perMinute := cmp.Or(limits.PerMinute, defaultInputsPerMinute)
	limit := call.LimitRate(call.RateLimit{
		PerSecond: float64(perMinute) / 60, Burst: perMinute, Name: "requests of the server",
		Methods: []string{mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodListRoots},
	})
	l.rate = limit(func(context.Context, *call.Call) (any, error) { return nil, nil })
}

// allow counts a request of the server. It returns an *inputLimitError for a request beyond a limit.
func (l *inputLimiter) allow(ctx context.Context, r *Request) error {
	if made := pendingOf(ctx).count(); l.perCall >= 0 && made > l.perCall {
		return &inputLimitError{
			fmt.Sprintf("more than %d requests of the server in one call", l.perCall),
			jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
				"%s: too many requests of the server in one call: the limit is %d", r.Method, l.perCall),
		}
	}
	of := call.Description{Method: r.Method, Principal: r.Caller.Principal}
	if c := callerFrom(ctx); c != nil {
		of.Source = c.Session
	}
	_, err := l.rate(ctx, call.New(of))
	if overload := new(call.OverloadError); errors.As(err, &overload) {
		wire, _ := errors.AsType[*jsonrpc.Error](&call.OverloadError{Limit: overload.Limit,
			RetryAfter: overload.RetryAfter})
		return &inputLimitError{"too many requests of the server in a minute", wire}
	}
	return err
}
