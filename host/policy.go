package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
)

// Policy decides which requests a [Host] sends to its servers, and which of their requests it answers. [Rules] is
// a Policy made of data. Decide must be safe for concurrent use and must not block. An error or a panic denies
// the request.
type Policy interface {
	Decide(ctx context.Context, r *Request) (Decision, error)
}

// Action is what a [Policy] decides. The zero value is Deny.
type Action int

// The actions of a policy.
const (
	// Deny rejects the request.
	Deny Action = iota
	// Ask sends or answers the request only if [Host.Approve] approves it. Completions and subscriptions
	// are rejected, because a user cannot be asked at each key. An elicitation is allowed, because
	// its user can decline it.
	Ask
	// Allow sends or answers the request.
	Allow
)

// String returns the action in lower case, such as "deny".
func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// Decision is the decision of a [Policy] about one request.
type Decision struct {
	Action  Action
	Reason  string // for the caller and the audit log, for example the rule that decided
	Version string // of the policy; an approval of one version does not count for another
	Rule    string // identifies the rule that decided; an approval for a session does not count for another rule
}

// The kinds of a [Request] and a [Definition].
const (
	KindTool         = "tool"
	KindPrompt       = "prompt"
	KindResource     = "resource"     // also a resource template
	KindInstructions = "instructions" // only of a Definition
	KindExtension    = "extension"    // a request or notification of an extension
	// Requests of servers:
	KindElicitation = "elicitation"
	KindSampling    = "sampling"
	KindRoots       = "roots"
)

// Request is a request of a caller, before a [Host] sends it to a server, or a request of a server on behalf of a
// caller, before the Host answers it.
type Request struct {
	// Method is tools/call, prompts/get, resources/read, completion/complete,
	// resources/subscribe or a method of an extension. Of a server, it is elicitation/create, sampling/createMessage or roots/list.
	Method string
	// Server is the name of the server in Host.Servers.
	Server string
	// Kind is KindTool, KindPrompt, KindResource or KindExtension; of a server, KindElicitation, KindSampling or KindRoots.
	Kind string
	// Name is the server's own name of the tool or prompt, a URI or URI template, or the ID of the extension. It is
	// empty for requests of a server.
	Name string
	// Tool is the definition of the tool as the server lists it; nil if it does not list it, and
	// for other kinds. Annotations is nil unless the server is trusted; see
	// [ServerConfig.Trusted]. It must not be modified.
	Tool *mcp.Tool
	// Arguments is a JSON object with the arguments of the tool or prompt, the arguments that
	// are known in a completion, or the parameters of an extension's method without _meta. It is nil for resources. Of a server, it has the parameters of the
	// request without _meta and task; an elicitation always has the member mode.
	Arguments json.RawMessage
	// Caller has the principal and the scopes of the caller. It is never nil, and must not be
	// modified. A program that uses the Host outside of the handler of a server is anonymous,
	// and so is the caller of a request of a server that belongs to no call.
	Caller *auth.Info
}

// ofServer reports whether a server has sent the request.
func (r *Request) ofServer() bool {
	return r.Kind == KindElicitation || r.Kind == KindSampling || r.Kind == KindRoots
}

// String names the request without its arguments, such as `tools/call read_file of server "files"`.
func (r *Request) String() string {
	return describe(r.Method, r.Name, r.Server)
}

func describe(method, name, server string) string {
	if name == "" {
		return fmt.Sprintf("%s of server %q", method, server)
	}
	return fmt.Sprintf("%s %.200s of server %q", method, name, server)
}

// DeniedError reports that a [Host] did not send a request, or did not return its result: the policy
// denies it, it was not approved, a hook rejects it, or it cannot be recorded.
type DeniedError struct {
	Server, Method, Name string
	Reason               string
	Err                  error // the cause; may be nil
}

// Error names the request and the reason.
func (e *DeniedError) Error() string {
	text := describe(e.Method, e.Name, e.Server) + " is denied: " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause, or nil.
func (e *DeniedError) Unwrap() error { return e.Err }

// denied returns the error for a request.
func (r *Request) denied(reason string, err error) *DeniedError {
	return &DeniedError{Server: r.Server, Method: r.Method, Name: r.Name, Reason: reason, Err: err}
}

// decide asks the policy. An error is a denial.
func (h *Host) decide(ctx context.Context, r *Request) (d Decision, err error) {
	if h.Policy == nil {
		return Decision{Action: Allow}, nil
	}
	err = h.contain("Policy", func() (err error) {
		d, err = h.Policy.Decide(ctx, r)
		return err
	})
	if err != nil {
		d.Action, d.Reason = Deny, "the policy cannot decide"
		return d, r.denied(d.Reason, err)
	}
	if d.Action != Allow && d.Action != Ask {
		d.Action = Deny
		if d.Reason == "" {
			d.Reason = "the policy does not allow it"
		}
		return d, r.denied(d.Reason, nil)
	}
	return d, nil
}

// errPanic is the error of a function of the program that panicked. The value of the panic is in the log only,
// because the error can reach a caller.
var errPanic = errors.New("internal error")

// contain calls f, a function of the program, and returns errPanic if it panics.
func (h *Host) contain(name string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			h.logger().Error("a function of the program panicked", "function", name, "panic", v, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return f()
}
