package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// InputLimits limit the requests of a server: elicitation, sampling and roots. 0 means the default, and a negative
// number means no limit. A request beyond a limit is answered with an error.
type InputLimits struct {
	// PerCall limits the requests while the server serves one tool call, prompt or read. 0 means 64.
	PerCall int
	// PerMinute limits the requests on behalf of one caller in a minute, on average. That many can come at once.
	// Callers are distinguished as in call.LimitRate. 0 means 600.
	PerMinute int
	// MaxTokens limits the tokens of one sampling request. A request for more is for MaxTokens then. 0
	// means 16,384.
	MaxTokens int64
}

const (
	defaultInputsPerCall   = 64
	defaultInputsPerMinute = 600
	defaultMaxTokens       = 16 << 10
)

func (l InputLimits) perCall() int     { return cmp.Or(l.PerCall, defaultInputsPerCall) }
func (l InputLimits) perMinute() int   { return cmp.Or(l.PerMinute, defaultInputsPerMinute) }
func (l InputLimits) maxTokens() int64 { return cmp.Or(l.MaxTokens, defaultMaxTokens) }

// inputLimiter applies the limits of one server. It is safe for concurrent use.
type inputLimiter struct {
	perCall int
	rate    call.Handler
	log     loglimit.Limiter // of requests that are denied
}

func (l *inputLimiter) init(limits InputLimits) {
	l.perCall = limits.perCall()
	perMinute := limits.perMinute()
	limit := call.LimitRate(call.RateLimit{
		PerSecond: float64(perMinute) / 60, Burst: perMinute, Name: "requests of the server",
		Methods: []string{mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodListRoots},
	})
	l.rate = limit(func(context.Context, *call.Call) (any, error) { return nil, nil })
}

// allow counts a request of the server. It returns an *inputLimitError for a request beyond a limit.
func (l *inputLimiter) allow(ctx context.Context, r *Request) error {
	if made := inputsOf(ctx).count(); l.perCall >= 0 && made > l.perCall {
		return &inputLimitError{
			fmt.Sprintf("more than %d requests of the server in one call", l.perCall),
			jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s: too many requests of the server in one call: the limit is %d", r.Method, l.perCall),
		}
	}
	of := call.Description{Method: r.Method, Principal: r.Caller.Principal}
	if c := call.From(ctx); c != nil {
		of.Source = c.Source()
	}
	_, err := l.rate(ctx, call.New(of))
	if overload := new(call.OverloadError); errors.As(err, &overload) {
		return &inputLimitError{"too many requests of the server in a minute", overload.Wire()}
	}
	return err
}

type inputsKey struct{}

// inputs are the requests of a server while it serves one request. A nil inputs keeps none.
type inputs struct {
	mu          sync.Mutex
	made        int
	same        map[string]int // how often an approval was requested, by its digest
	completions []completion
}

// completion is the end of a URL elicitation.
type completion struct {
	*outbound.Completion
	later func() // notifies the client after the request
}

func withInputs(ctx context.Context) context.Context {
	return context.WithValue(ctx, inputsKey{}, new(inputs))
}

func inputsOf(ctx context.Context) *inputs {
	i, _ := ctx.Value(inputsKey{}).(*inputs)
	return i
}

// count counts a request of the server and returns the number of requests.
func (i *inputs) count() int {
	if i == nil {
		return 0
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	return i.made
}

// distinguish returns a digest that differs from those of earlier approvals, so that each of several equal requests
// of the server has an approval of its own. If the call runs again, its requests have the same digests.
func (i *inputs) distinguish(sum string) string {
	if i == nil {
		return sum
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.same == nil {
		i.same = make(map[string]int)
	}
	i.same[sum]++
	return digest.Join([]byte(sum), fmt.Append(nil, i.same[sum]))
}

// add adds the completion of a URL elicitation, and the function that notifies the client after the request.
func (i *inputs) add(one *outbound.Completion, later func()) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.completions = append(i.completions, completion{one, later})
}

// report reports the URL elicitations that have ended, before the result of the request. The client is notified of others
// later, without the request, which is not kept in memory until then.
func (i *inputs) report() {
	if i == nil {
		return
	}
	i.mu.Lock()
	all := i.completions
	i.mu.Unlock()
	for _, one := range all {
		one.Report()
		one.Then(one.later)
	}
}
