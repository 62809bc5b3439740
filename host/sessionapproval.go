package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

const (
	maxSessionApprovals = 1000             // of one server; the user is asked again for the oldest
	statelessApproval   = 15 * time.Minute // how long an approval is valid for a caller without a session
)

// sessionApproval is the choice of a user to allow a tool for more than one call. Copies of an Approval share it.
type sessionApproval struct {
	key        approvalKey
	definition string // the digest of the definition of the tool
	stateless  bool   // the caller has no session
	chosen     bool
}

// approvalKey is what an approval for a session is about. Arguments are no part of it: the policy decides about each call,
// and the rule must be the same.
type approvalKey struct {
	caller any    // as rpc.Caller.Key
	sum    string // of the tool, the principal and the decision
}

// validApproval is an approval for a session.
type validApproval struct {
	definition string
	until      time.Time // zero means the end of the session
}

// sessionApproval returns the approval for a session that a request could have, or nil if it can have none: that of a caller
// who cannot be told from others, and a request that is no call of a tool that the server lists.
func (s *supervisor) sessionApproval(ctx context.Context, r *Request, d Decision) *sessionApproval {
	c := rpc.From(ctx)
	if c == nil || r.Kind != KindTool || r.Tool == nil {
		return nil
	}
	caller := c.Caller()
	if !caller.Returns {
		return nil
	}
	definition, err := json.Marshal(r.Tool)
	if err != nil {
		return nil
	}
	sum := digest.Join([]byte(r.Method), []byte(r.Name), []byte(r.Caller.Principal.Key()), []byte(d.Version), []byte(d.Rule), []byte(d.Reason))
	return &sessionApproval{key: approvalKey{caller.Key, sum}, definition: digest.Join(definition), stateless: !caller.Session}
}

// AllowSession lets the caller call the tool again, with any arguments, until its session ends or, if it has no session,
// for 15 minutes. The policy decides about each of these calls; they need no further approval if the same rule asks, and if
// neither the definition of the tool nor the version of the policy has changed. It has an effect if Answers offers it, and
// if [Host.Approve] then returns nil.
func (a *Approval) AllowSession() {
	if a.session != nil {
		a.session.chosen = true
	}
}

// Answers returns the texts of the answers that a user can choose from. Session is for [Approval.AllowSession]; it is empty
// if the request can only be allowed once.
func (a *Approval) Answers() (once, session, decline string) {
	if a.session != nil {
		session = "Allow for this session, with any arguments"
		if a.session.stateless {
			session = fmt.Sprintf("Allow for %d minutes, with any arguments", statelessApproval/time.Minute)
		}
	}
	return "Allow once", session, "Decline"
}

// sessionApprovals are the approvals for sessions at one server.
type sessionApprovals struct {
	mu      sync.Mutex
	version uint64 // counts the calls of forget
	valid   map[approvalKey]validApproval
	order   []approvalKey // from the oldest; may have keys that are not valid
}

// current returns the version to pass to add.
func (all *sessionApprovals) current() uint64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.version
}

// has reports whether a request is approved. A request with another definition ends the approval.
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

// add adds an approval that the user was asked for in a version.
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

// describeCaller describes the caller of a request for the user who approves it. The name of the client is what the client
// says.
func describeCaller(ctx context.Context, caller *auth.Info) string {
	text := "a client without a login"
	switch who := caller.Principal; {
	case who == principal.Local:
		text = "a program of this machine"
	case who != principal.Anonymous:
		text = plain(who.String())
	}
	if c := rpc.From(ctx); c != nil && c.Peer().Info != nil {
		text += fmt.Sprintf(", which calls itself %.100q", plain(c.Peer().Info.Name))
	}
	return text
}
