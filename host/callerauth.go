package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

// CallerAuth authorizes the requests to a server on behalf of each caller with credentials of that caller; see
// [ServerConfig.CallerAuth].
type CallerAuth struct {
	authorizer func(caller principal.Principal) (client.Authorizer, error)
}

// NewCallerAuth returns a CallerAuth. Authorizer returns the authorizer of the requests on behalf of a caller,
// such as the method Authorizer of an oauth.Callers or what that of an oauth.Broker returns. It is called for
// each client that the Host dials for a caller, and may be called concurrently.
func NewCallerAuth[A client.Authorizer](authorizer func(caller principal.Principal) (A, error)) *CallerAuth {
	return &CallerAuth{func(caller principal.Principal) (client.Authorizer, error) {
		a, err := authorizer(caller)
		if err != nil {
			return nil, err
		}
		return a, nil
	}}
}

// ErrAnonymousCaller is returned for requests without an authenticated caller to a server with
// [ServerConfig.CallerAuth].
var ErrAnonymousCaller = errors.New("host: the server requires the credentials of the caller, and the caller is not authenticated")

// authenticated returns the caller of ctx with its principal, for a server with CallerAuth. Requests of another
// principal never use the client of the caller.
func authenticated(ctx context.Context, caller rpc.Caller) (rpc.Caller, error) {
	who := callerOf(ctx).Principal
	if who.IsAnonymous() {
		return rpc.Caller{}, ErrAnonymousCaller
	}
	key := ownedKey{owner: who}
	if caller.Returns {
		key.caller = caller.Key
	}
	caller.Key, caller.Owner, caller.Returns = key, who, true
	return caller, nil
}

// ownedKey is the key of the client of a caller with a principal.
type ownedKey struct {
	caller any
	owner  principal.Principal
}

// authorize makes a client send the credentials of its caller instead of those of the host.
func (a *CallerAuth) authorize(d *client.Dialer, target client.Target, caller principal.Principal) (client.Target, error) {
	authorizer, err := a.authorizer(caller)
	if err != nil {
		return nil, fmt.Errorf("cannot get the credentials of the caller: %w", err)
	}
	d.Auth = authorizer
	of := *target.(*client.HTTPTarget) // see Host.check
	of.Header = of.Header.Clone()
	of.Header.Del("Authorization")
	return &of, nil
}

// checkCallerAuth returns an error if the other settings of a server do not fit its CallerAuth.
func (config *ServerConfig) checkCallerAuth() error {
	if config.CallerAuth == nil {
		return nil
	}
	if _, isHTTP := config.Target.(*client.HTTPTarget); !isHTTP {
		return errors.New("CallerAuth requires a Target with a URL")
	}
	if config.Sharing == Shared {
		return errors.New("CallerAuth requires that Sharing is not Shared")
	}
	return nil
}
