package host

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/principal"
)

// Sharing sets which callers share a connection to a server: a session over HTTP, or a running program.
type Sharing int

const (
	// SharingAuto depends on the server:
	//
	//   - a server that keeps sessions over HTTP: SharingSession
	//   - a program of a revision before 2026-07-28: SharingUser, because nothing in its messages says for whom it asks
	//   - a server with credentials or headers of callers: SharingSession, even if it keeps no sessions
	//   - other servers: SharingEveryone
	SharingAuto Sharing = iota
	// SharingEveryone means one connection for all callers. A server of a revision before 2026-07-28 can then ask
	// nobody: unless [Host.Dialer] answers them, elicitation, sampling and roots fail with an error, and log messages
	// reach nobody.
	SharingEveryone
	// SharingUser means one connection for each authenticated user. Other callers share the connection for everyone.
	SharingUser
	// SharingSession means one connection for each session of a user, and one for each authenticated user without a
	// session. Other callers share the connection for everyone.
	SharingSession
)

// String returns the value in lower case, such as "session".
func (s Sharing) String() string {
	switch s {
	case SharingEveryone:
		return "everyone"
	case SharingUser:
		return "user"
	case SharingSession:
		return "session"
	}
	return "automatic"
}

// audience says who shares a connection. The zero audience is everyone: the connection that the Host keeps for
// itself.
type audience struct {
	user    principal.Principal
	session string
	headers string // a digest of the headers of the caller; empty without CallerHeaders
}

var everyone audience

// isShared reports whether several people may share a connection, because nothing tells them apart.
func (a audience) isShared() bool { return a.user == principal.Anonymous && a.session == "" }

// sharing returns who shares the connections to the server. own is the client of the host's own connection; it may be
// nil if the server uses credentials of callers.
func (s *supervisor) sharing(own *client.Client) Sharing {
	_, isCommand := s.config.Target.(*client.CommandTarget)
	switch {
	case s.config.CallerAuth != nil || len(s.callerHeaders) > 0:
		return SharingSession
	case s.config.Sharing != SharingAuto:
		return s.config.Sharing
	case s.isHTTP() && own.KeepsSession():
		return SharingSession
	case isCommand && !own.Revision().Modern():
		return SharingUser
	}
	return SharingEveryone
}

// audienceOf returns whose connection serves the requests of a caller. Nothing else decides this.
//
//	            | with a session   | authenticated | the user of this machine | others
//	everyone    | everyone         | everyone      | everyone                 | everyone
//	user        | user             | user          | everyone                 | everyone
//	session     | user and session | user          | user                     | everyone
//	credentials | user and session | user          | user                     | ErrAnonymousCaller
//	headers     | user and session | user          | user                     | those with the same headers
//
// With headers of callers, each row is split by their values: a user with two keys uses two connections, and callers
// without a key share none with callers who have one.
func (s *supervisor) audienceOf(c *Caller, own *client.Client) (audience, error) {
	who := c.principal()
	if s.config.CallerAuth != nil && who == principal.Anonymous {
		return everyone, ErrAnonymousCaller
	}
	switch s.sharing(own) {
	case SharingSession:
		if c == nil {
			return everyone, nil
		}
		headers, err := s.headersOf(c)
		return audience{who, c.Session, headers}, err
	case SharingUser:
		if who != principal.Local {
			return audience{user: who}, nil
		}
	}
	return everyone, nil
}

// checkSharing returns an error if the other settings of a server do not fit its Sharing, CallerAuth or CallerHeaders.
func (config *ServerConfig) checkSharing() error {
	_, isHTTP := config.Target.(*client.HTTPTarget)
	switch {
	case config.Sharing < SharingAuto || config.Sharing > SharingSession:
		return fmt.Errorf("Sharing must be one of the constants, got %d", config.Sharing)
	case config.CallerAuth == nil && len(config.CallerHeaders) == 0:
		return nil
	case !isHTTP:
		return errors.New("CallerAuth and CallerHeaders require a Target with a URL: others have no headers")
	case config.Sharing == SharingEveryone:
		return errors.New("CallerAuth and CallerHeaders require that Sharing is not SharingEveryone: callers do not " +
			"share credentials")
	case config.CallerAuth != nil && len(config.CallerHeaders) > 0:
		return errors.New("must not have both CallerAuth and CallerHeaders")
	}
	return nil
}

// CallerAuth authorizes requests to a server with the credentials of each caller; see [ServerConfig.CallerAuth]. It is
// used as a pointer, so that [Host.SetServers] can tell whether it has changed.
type CallerAuth struct {
	authorizer func(caller principal.Principal) (client.Authorizer, error)
}

// NewCallerAuth returns a CallerAuth that calls authorizer for each connection that the Host dials for a caller. Use,
// for example, the method Authorizer of callers.Clients in auth/oauth, or what that method of a callers.Broker returns.
// The function may be called concurrently.
func NewCallerAuth[A client.Authorizer](authorizer func(caller principal.Principal) (A, error)) *CallerAuth {
	return &CallerAuth{func(caller principal.Principal) (client.Authorizer, error) {
		a, err := authorizer(caller)
		if err != nil {
			return nil, err
		}
		return a, nil
	}}
}

// authorize makes a client send a caller's credentials instead of the host's.
func (config *ServerConfig) authorize(d *client.Dialer, caller principal.Principal) error {
	if config.CallerAuth == nil {
		return nil
	}
	authorizer, err := config.CallerAuth.authorizer(caller)
	if err != nil {
		return fmt.Errorf("cannot get the credentials of the caller: %w", err)
	}
	d.Auth, d.Header = authorizer, http.Header{"Authorization": nil}
	return nil
}
