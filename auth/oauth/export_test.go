package oauth

import (
	"context"
	"net/url"
	"syscall"
)

// WatchEgress has every address that c connects to be seen first.
func WatchEgress(c *Client, see func(address string)) {
	c.egress = func(next control) control {
		return func(ctx context.Context, network, address string, conn syscall.RawConn) error {
			if next != nil {
				if err := next(ctx, network, address, conn); err != nil {
					return err
				}
			}
			see(address)
			return nil
		}
	}
}

// BoundFile has the file of a store be at most so many bytes long.
func BoundFile(f *FileStore, most int) { f.most = most }

var (
	BrowserCommand = browserCommand
	LockFile       = lockFile
	Public         = public
)

// ReadIDJAG reads the response of a token exchange.
func ReadIDJAG(body []byte, issuer, audience, resource, client string) (string, error) {
	return readIDJAG(body, idJAG{issuer, audience, resource, client})
}

// AcceptCallback is what becomes of an authorization response.
func AcceptCallback(raw, state, issuer string, promised bool) (code string, err error) {
	c, err := parseCallback(raw)
	if err != nil {
		return "", err
	}
	return c.accept(state, &serverMetadata{Issuer: issuer, IssParameter: promised})
}

// ParseResource and ParseServer read metadata; they return what it is about.
func ParseResource(body []byte, from, server *url.URL) (string, error) {
	m, err := parseResource(body, from, server)
	if err != nil {
		return "", err
	}
	return m.Resource, nil
}

func ParseServer(body []byte, issuer string, server *url.URL) (endpoints []string, err error) {
	m, err := parseServer(body, issuer)
	if err == nil {
		err = m.checkEndpoints((&Client{}).newWeb(server))
	}
	if err != nil {
		return nil, err
	}
	return []string{m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint, m.RevocationEndpoint}, nil
}
