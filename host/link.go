package host

import (
	"errors"

	"github.com/parley-mcp/parley/internal/link"
)

// The functions of package link for the gateway.
func init() {
	link.Set(link.Host[Host, ServerStatus, Request]{
		Forward:            (*Host).setForwarding,
		CallerStatus:       (*Host).callerStatus,
		WatchCaller:        (*Host).watchCaller,
		OutdateCallers:     (*Host).outdateCallers,
		PermitSubscription: (*Host).permitSubscription,
		PolicyChanges:      (*Host).policyChanges,
		Hides:              (*Host).hides,
		ToolsVersion:       (*Host).toolsVersion,
		Attribute:          (*Host).attribute,
	})
}

// setForwarding makes the Host send the requests of servers for which neither Host nor Dialer has a function to the client
// whose request a handler of a server.Server serves, if it supports them, and log messages at the level that it has chosen.
// A server receives an error if the client does not support its request, or if no call of a client is known to be its
// cause. A request for roots without a call is sent on the session of the client, if that is known; see [Sharing]. Messages
// to users name the server; see attribute.
func (h *Host) setForwarding() error {
	switch {
	case h.forwards: // for another gateway
		return nil
	case h.ctx != nil:
		return errors.New("the host must not be started before its first gateway is made")
	}
	h.forwards = true
	return nil
}
