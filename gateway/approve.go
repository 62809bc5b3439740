package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// errCannotAsk is returned by [Approve] if it cannot ask the client.
var errCannotAsk = fmt.Errorf("the client cannot be asked for an approval: it does not support elicitation by form: %w",
	server.ErrCannotAsk)

// Approve asks the user of the client whose request is being served, with a form. Use it as [host.Host.Approve]. An
// approval counts once: in 2026-07-28, a repetition of the client's last request is not approved again. The user can
// allow the tool for the session, with any arguments, or for 15 minutes if there is no session. The policy still
// decides on each of these calls. They need no further approval as long as the same rule asks, and the definition of
// the tool and the version of the policy stay the same.
//
// Approve returns false if the user declines or dismisses the form. It returns [server.ErrCannotAsk] if there is no
// client or it does not support forms, an error that wraps context.DeadlineExceeded if no answer arrives before the
// deadline of ctx, or an error of server.Ask.
//
// If the replica of a task ends, the task runs again on another one. If it has already used an approval, it fails then,
// because the user approved the request once, and it may have been sent.
func Approve(ctx context.Context, a *host.Approval) (approved bool, err error) {
	if c := call.From(ctx); c == nil || !c.Peer().Capabilities.Elicitation.SupportsForm() {
		return false, errCannotAsk
	}
	timeout := forever
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	sum := a.Digest()
	asked, err := firstIn(ctx, "ask/"+sum)
	if err != nil {
		return false, err
	}
	// No other request uses this key, so an answer to another question does not count.
	key := "approve/" + digest.Join([]byte(asked.Call), []byte(sum))
	content, err := server.ElicitForm(ctx, a.Question(), approvalForm(a), server.Keyed(key))
	switch {
	case errors.Is(err, server.ErrDeclined), errors.Is(err, server.ErrDismissed):
		return false, nil
	case errors.As(err, new(*call.CapabilityError)), errors.Is(err, errors.ErrUnsupported),
		errors.Is(err, server.ErrCannotAsk):
		return false, fmt.Errorf("%w: %w", errCannotAsk, err)
	case err != nil:
		return false, err
	}
	switch answer, _ := jsonrpc.Get(content, approvalField); string(answer) {
	case `"` + allowOnce + `"`:
	case `"` + allowSession + `"`:
		a.AllowSession()
	default:
		return false, nil
	}
	answered, err := firstIn(ctx, "answer/"+sum)
	if err != nil {
		return false, err
	}
	if answered.Time.Sub(asked.Time) > timeout {
		return false, fmt.Errorf("the answer came too late: %w", context.DeadlineExceeded)
	}
	err = useOnce(ctx, key)
	return err == nil, err
}

const forever = time.Duration(math.MaxInt64)

// moment is when a handler first did something, across all rounds of the request.
type moment struct {
	Time time.Time
	Call string // identifies the request
}

// firstIn returns the moment of its first call with the key, across all rounds of the request.
func firstIn(ctx context.Context, key string) (moment, error) {
	return server.Once(ctx, key, func(_ context.Context, idempotencyKey string) (moment, error) {
		return moment{time.Now(), idempotencyKey}, nil
	})
}

// useOnce returns an error if an approval was used before. In 2026-07-28, the request to the server is repeated in
// the next round if the server requests input. The approval may then be used once in each later round.
func useOnce(ctx context.Context, key string) error {
	own, use := rand.Text(), key
	if round := roundAfter(ctx, key); round != "" {
		use = key + "/" + round
	}
	user, err := server.Once(ctx, use, func(context.Context, string) (string, error) { return own, nil })
	if err == nil && user != own {
		err = errors.New("the approval was used before, and the request may have been sent: send it again, without " +
			"requestState, to ask for another approval")
	}
	return err
}

// roundAfter identifies the round of a request of 2026-07-28 if the client answered the question with the key in an
// earlier round. Otherwise, it returns "".
func roundAfter(ctx context.Context, key string) string {
	params := call.From(ctx).Params()
	state, _ := params.Get("requestState")
	answers, _ := params.Get("inputResponses")
	if _, now := jsonrpc.Get(answers, key); state == nil || now {
		return ""
	}
	return digest.Join(state)
}

// The field of the form for an approval, and its values. Other values decline.
const (
	approvalField = "approve"
	allowOnce     = "once"
	allowSession  = "session"
	declineAll    = "no"
)

// approvalForm returns the form for an approval: a choice of answers, the first of which declines.
func approvalForm(a *host.Approval) json.RawMessage {
	once, session, decline := a.Answers()
	options := []mcp.EnumOption{{Const: declineAll, Title: decline}, {Const: allowOnce, Title: once}}
	if session != "" {
		options = append(options, mcp.EnumOption{Const: allowSession, Title: session})
	}
	titled, _ := json.Marshal(options) // strings always encode
	return fmt.Appendf(nil,
		`{"type":"object","properties":{"%s":{"type":"string","title":"Allow the request?","oneOf":%s,`+
			`"default":"%s"}},"required":["%[1]s"]}`,
		approvalField, titled, declineAll)
}
