package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/rpc"
)

// ErrDeclined is returned by [Host.Approve] if the user does not approve a request.
var ErrDeclined = errors.New("the user declined")

// errUnanswered is the cause of the end of a context of Host.Approve.
var errUnanswered = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)

const defaultApprovalTimeout = 5 * time.Minute

// Approval asks whether one request may be sent, or one request of a server answered. It is for this request only, and is
// used once.
type Approval struct {
	Request *Request // must not be modified
	Reason  string   // the reason of the policy
	// Digest identifies the server, the tool, prompt or resource with its definition, the arguments,
	// the version of the policy and the caller. Equal requests of a server in one call have different
	// digests. An answer for one Digest must not count for another.
	Digest string
	// Timeout is how long the answer may take.
	Timeout time.Duration
}

// newApproval returns the approval of a request. Arguments that differ only in white space, the order of
// members or the notation of strings have the same digest.
func (h *Host) newApproval(ctx context.Context, r *Request, d Decision) (*Approval, error) {
	arguments, err := digest.Canonical(r.Arguments)
	if err != nil {
		return nil, err
	}
	var definition []byte
	if r.Tool != nil {
		if definition, err = json.Marshal(r.Tool); err != nil {
			return nil, err
		}
	}
	timeout := h.ApprovalTimeout
	if timeout <= 0 {
		timeout = defaultApprovalTimeout
	}
	sum := digest.Join([]byte(r.Server), []byte(r.Method), []byte(r.Name), definition, arguments, []byte(d.Version), []byte(r.Caller.Principal.Key()))
	if r.ofServer() {
		sum = inputsOf(ctx).distinguish(sum)
	}
	return &Approval{Request: r, Reason: d.Reason, Timeout: timeout, Digest: sum}, nil
}

// maxShown is the length of the arguments that a question shows, in bytes.
const maxShown = 4 << 10

// Question returns a text that asks the user: it has the name, the server, the arguments and the reason.
// Control characters and invisible characters are replaced. Arguments are without white space and with sorted
// members, and are cut after 4 KiB.
func (a *Approval) Question() string {
	r := a.Request
	text, label := fmt.Sprintf("Allow the %s %q of the server %q?", r.Kind, plain(r.Name), r.Server), "Arguments"
	switch r.Kind {
	case KindExtension:
		text, label = fmt.Sprintf("Allow the request %q to the server %q?", plain(r.Method), r.Server), "Parameters"
	case KindSampling:
		text, label = fmt.Sprintf("Allow the server %q to send a request to the language model?", r.Server), "Request"
	case KindRoots:
		text = fmt.Sprintf("Allow the server %q to see the list of directories that it may work in?", r.Server)
	}
	if r.Arguments != nil && r.Kind != KindRoots {
		text += "\n\n" + label + ": " + shown(r.Arguments)
	}
	if a.Reason != "" {
		text += "\n\nReason for the question: " + plain(a.Reason)
	}
	return text
}

// shown returns arguments for a question. White space and the order of members cannot hide a part of them.
func shown(arguments json.RawMessage) string {
	canonical, err := digest.Canonical(arguments)
	if err != nil {
		canonical = arguments
	}
	text := plain(string(canonical))
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes in all)", len(canonical))
	}
	return text
}

// plain replaces characters that could change how a client shows the text.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// The outcomes of an approval in the audit log.
const (
	approved   = "approved"
	declined   = "declined"
	unanswered = "unanswered"
	notAsked   = "not asked" // the user cannot be asked
)

// approve asks for the approval of a request. It returns rpc.ErrInputRequired if the handler runs again
// with the answer.
func (h *Host) approve(ctx context.Context, r *Request, d Decision) (outcome string, err error) {
	if h.Approve == nil {
		return notAsked, r.denied("it needs an approval, and no user can be asked", nil)
	}
	a, err := h.newApproval(ctx, r, d)
	if err != nil {
		return notAsked, r.denied("its arguments are invalid", err)
	}
	asking, cancel := context.WithTimeoutCause(ctx, a.Timeout, errUnanswered)
	defer cancel()
	err = h.contain("Approve", func() error { return h.Approve(asking, a) })
	switch {
	case errors.Is(err, rpc.ErrInputRequired), errors.Is(context.Cause(ctx), rpc.ErrInputRequired):
		return "", rpc.ErrInputRequired
	case ctx.Err() != nil:
		return unanswered, context.Cause(ctx)
	case asking.Err() != nil, errors.Is(err, context.DeadlineExceeded): // also if the answer was yes
		return unanswered, r.denied("it was not approved in time", nil)
	case errors.Is(err, ErrDeclined):
		return declined, r.denied("it was not approved", err)
	case err != nil:
		return notAsked, r.denied("it needs an approval", err)
	}
	return approved, nil
}
