package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/plaintext"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// errDeclined is the error of a request that the user does not approve.
var errDeclined = errors.New("the user declined")

// errUnanswered is the cause with which the context of Host.Approve is cancelled.
var errUnanswered = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)

const defaultApprovalTimeout = 5 * time.Minute

// Approval asks whether the Host may send one request, or answer one request from a server. It covers only this
// request, and counts once, unless the user of a gateway allows a tool for the session.
type Approval struct {
	Request *Request // must not be modified
	reason  string   // reason that the policy gives

	digest  string
	caller  string
	session *sessionApproval // nil if the request can only be allowed once
}

// newApproval returns the approval of a request. Arguments that differ only in white space, the order of
// keys or the escapes in strings have the same digest.
func (h *Host) newApproval(ctx context.Context, r *Request, d Decision, session *sessionApproval) (*Approval, error) {
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
	sum := digest.Join([]byte(r.Server), []byte(r.Method), []byte(r.Name), definition, arguments, []byte(d.Version),
		[]byte(r.Caller.Principal.Key()))
	if r.ofServer() {
		sum = pendingOf(ctx).distinguish(sum)
	}
	return &Approval{Request: r, reason: d.Reason, digest: sum, caller: describeCaller(ctx, r.Caller),
		session: session}, nil
}

// Bounds of a question, in bytes.
const (
	maxShown    = 4 << 10  // of arguments; in longer ones, values are shortened
	maxQuestion = 64 << 10 // a longer question is not asked
)

// Question returns the text for the user: what is asked, at which server, with which arguments, for which caller, and
// why. Its first paragraph is one sentence, which a program can repeat above the answers. Control characters and
// invisible characters are shown by code point. Arguments are JSON without white space and with sorted keys. Beyond 4
// KiB, long values are shortened, but no key is left out.
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
	separator := "\n\n"
	if a.caller != "" {
		text += separator + "Caller: " + a.caller
		separator = "\n"
	}
	if a.reason != "" {
		text += separator + "Reason for the question: " + plain(a.reason)
	}
	return text
}

// shown returns arguments for a question. White space and the order of keys cannot hide a part of them, and every
// key and element is shown.
func shown(arguments json.RawMessage) string {
	canonical, err := digest.Canonical(arguments)
	if err != nil {
		canonical = arguments
	}
	text := plain(string(canonical))
	for _, limit := range []int{1 << 10, 256, 64, 16} {
		if len(text) <= maxShown {
			break
		}
		text = plain(shortened(canonical, limit))
	}
	return text
}

// shortened returns JSON in which names, strings and numbers of more than limit bytes are replaced by their beginning,
// their length and their end.
func shortened(text []byte, limit int) string {
	var b strings.Builder
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for first := true; ; {
		before := d.StackDepth()
		token, err := d.ReadToken()
		if err != nil {
			return b.String()
		}
		kind, n := d.StackIndex(d.StackDepth())
		isName := kind == '{' && n%2 == 1
		ends := token.Kind() == '}' || token.Kind() == ']'
		if !first && !ends {
			b.WriteByte(',')
		}
		switch {
		case token.Kind() == '"':
			b.WriteString(cut(token.String(), limit, func(part string) string {
				return string(jsonrpc.AppendString(nil, part))
			}))
		default:
			b.WriteString(cut(token.String(), limit, func(part string) string { return part }))
		}
		if isName {
			b.WriteByte(':')
		}
		first = isName || d.StackDepth() > before
	}
}

// cut returns a text as written, or its beginning and its end if it is long.
func cut(text string, limit int, written func(part string) string) string {
	if len(text) <= limit {
		return written(text)
	}
	start, end := strings.ToValidUTF8(text[:limit/2], ""), strings.ToValidUTF8(text[len(text)-limit/2:], "")
	return fmt.Sprintf("%s … %d bytes … %s", written(start), len(text), written(end))
}

// plain replaces characters that could change how a client shows the text with their code points.
func plain(text string) string { return plaintext.Replace(text, plaintext.CodePoint) }

// The outcomes of an approval in the audit log.
const (
	approved   = "approved"
	inSession  = "approved for the session" // asked now, or for an earlier call
	declined   = "declined"
	unanswered = "unanswered"
	notAsked   = "not asked" // the user cannot be asked
)

// approve asks for the approval of a request. It returns call.ErrInputRequired if the handler will run
// again with the answer.
func (h *Host) approve(ctx context.Context, r *Request, d Decision,
	session *sessionApproval) (outcome string, err error) {
	if h.Approve == nil {
		return notAsked, r.denied("it needs an approval, and no user can be asked", nil)
	}
	a, err := h.newApproval(ctx, r, d, session)
	if err != nil {
		return notAsked, r.denied("its arguments are invalid", err)
	}
	if len(a.Question()) > maxQuestion {
		return notAsked, r.denied("it needs an approval, and its arguments are too many to be shown", nil)
	}
	asking, cancel := context.WithTimeoutCause(ctx, cmp.Or(h.ApprovalTimeout, defaultApprovalTimeout), errUnanswered)
	defer cancel()
	var approves bool
	err = h.contain("Approve", func() (err error) {
		approves, err = h.Approve(asking, a)
		return err
	})
	switch {
	case errors.Is(err, call.ErrInputRequired), errors.Is(context.Cause(ctx), call.ErrInputRequired):
		return "", call.ErrInputRequired
	case ctx.Err() != nil:
		return unanswered, context.Cause(ctx)
	case asking.Err() != nil, errors.Is(err, context.DeadlineExceeded): // even if the answer was yes
		return unanswered, r.denied("it was not approved in time", nil)
	case err != nil:
		return notAsked, r.denied("it needs an approval", err)
	case !approves:
		return declined, r.denied("it was not approved", errDeclined)
	}
	if session != nil && session.chosen {
		return inSession, nil
	}
	return approved, nil
}

const (
	maxSessionApprovals = 1000             // for one server; beyond it, the oldest approval is dropped
	statelessApproval   = 15 * time.Minute // validity of an approval for a caller without a session
)

// sessionApproval is the choice of a user to allow a tool for more than one call. Copies of an Approval share it.
type sessionApproval struct {
	key        approvalKey
	definition string // the digest of the definition of the tool
	stateless  bool   // the caller has no session
	chosen     bool
}

// approvalKey identifies what an approval for a session covers. It leaves out the arguments: the policy still
// decides on each call, and the same rule must have decided.
type approvalKey struct {
	caller audience
	sum    string // digest of the tool, the principal and the decision
}

// validApproval is an approval for a session.
type validApproval struct {
	definition string
	until      time.Time // zero means the end of the session
}

// sessionApproval returns the approval for a session that a request could have, or nil if it can have none: if the
// caller cannot be told apart from others, or the request does not call a tool that the server lists.
func (s *supervisor) sessionApproval(ctx context.Context, r *Request, d Decision) *sessionApproval {
	c := callerFrom(ctx)
	if c == nil || r.Kind != KindTool || r.Tool == nil {
		return nil
	}
	caller := audience{user: c.principal(), session: c.Session}
	if caller == everyone {
		return nil
	}
	definition, err := json.Marshal(r.Tool)
	if err != nil {
		return nil
	}
	sum := digest.Join([]byte(r.Method), []byte(r.Name), []byte(r.Caller.Principal.Key()), []byte(d.Version),
		[]byte(d.Rule), []byte(d.Reason))
	return &sessionApproval{key: approvalKey{caller, sum}, definition: digest.Join(definition),
		stateless: c.Session == ""}
}

// AllowSession lets the caller call the tool again, with any arguments, until the session ends, or for 15 minutes
// without a session. The policy still decides on each of these calls. They need no further approval as long as the
// same rule asks, and the definition of the tool and the version of the policy stay the same. AllowSession only has an
// effect if Answers offers it and Host.Approve then returns true.
func (a *Approval) AllowSession() {
	if a.session != nil {
		a.session.chosen = true
	}
}

// Digest identifies the request and its caller: it covers the server, the tool, prompt or resource with its definition,
// the arguments, the version of the policy, and the caller. If a server sends the same request twice during one call,
// the digests differ. An answer for one digest must not count for another.
func (a *Approval) Digest() string { return a.digest }

// Answers returns the texts of the answers that a user can choose from. Session is for [Approval.AllowSession]; it is
// empty if the request can only be allowed once.
func (a *Approval) Answers() (once, session, decline string) {
	if a.session != nil {
		session = "Allow for this session, with any arguments"
		if a.session.stateless {
			session = fmt.Sprintf("Allow for %d minutes, with any arguments", statelessApproval/time.Minute)
		}
	}
	return "Allow once", session, "Decline"
}

// sessionApprovals contains the approvals for sessions at one server.
type sessionApprovals struct {
	mu      sync.Mutex
	version uint64 // counts the calls of forget
	valid   map[approvalKey]validApproval
	order   []approvalKey // oldest first; may contain keys that are no longer valid
}

// current returns the version to pass to add.
func (all *sessionApprovals) current() uint64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.version
}

// has reports whether a request is approved. If the definition of the tool has changed, the approval ends.
func (all *sessionApprovals) has(a *sessionApproval) bool {
	if a == nil {
		return false
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	valid, found := all.valid[a.key]
	if found && (valid.definition != a.definition || !valid.until.IsZero() && !time.Now().Before(valid.until)) {
		delete(all.valid, a.key)
		return false
	}
	return found
}

// add adds an approval, unless forget was called since current returned the version.
func (all *sessionApprovals) add(a *sessionApproval, version uint64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if version != all.version {
		return
	}
	if all.valid == nil {
		all.valid = make(map[approvalKey]validApproval)
	}
	all.order = append(slices.DeleteFunc(all.order, func(key approvalKey) bool { return key == a.key }), a.key)
	now := validApproval{definition: a.definition}
	if a.stateless {
		now.until = time.Now().Add(statelessApproval)
	}
	if all.valid[a.key] = now; len(all.order) > maxSessionApprovals {
		delete(all.valid, all.order[0])
		all.order = all.order[1:]
	}
}

// forget removes all approvals.
func (all *sessionApprovals) forget() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.version++
	all.valid, all.order = nil, nil
}

// describeCaller describes the caller of a request for the user who approves it. The name of the client is what the
// client claims. It is empty if the program itself is the caller.
func describeCaller(ctx context.Context, caller *auth.Info) string {
	text, name, isCall := "a client without a login", "", false
	if c := callerFrom(ctx); c != nil {
		name, isCall = c.Client, true
	} else if c := call.From(ctx); c != nil {
		if isCall = true; c.Peer().Info != nil {
			name = c.Peer().Info.Name
		}
	}
	switch who := caller.Principal; {
	case who == principal.Anonymous && !isCall:
		return ""
	case who == principal.Local:
		text = "a program of this machine"
	case who != principal.Anonymous:
		text = plain(who.String())
	}
	if name != "" {
		text += fmt.Sprintf(", which calls itself %.100q", plain(name))
	}
	return text
}
