package endpoint

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/cmd/parley/internal/dirwatch"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// certificate is the certificate of an HTTPS server, which is read again when its files change. Connections that are
// open keep the certificate that they began with. It is safe for concurrent use.
type certificate struct {
	cert, key string                           // files
	printf    func(format string, args ...any) // prints a line for the user

	now     atomic.Pointer[tls.Certificate]
	reading sync.Mutex
	seen    string // the state of the files when they were read
}

// load reads the files for the first time.
func (c *certificate) load() error {
	c.seen = dirwatch.State(c.cert, c.key)
	return c.read()
}

func (c *certificate) read() error {
	chain, err := os.ReadFile(c.cert)
	if err != nil {
		return fmt.Errorf("cannot read the certificate: %w; choose its file with --tls-cert", err)
	}
	key, err := os.ReadFile(c.key)
	if err != nil {
		return fmt.Errorf("cannot read the key of the certificate: %w; choose its file with --tls-key", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("cannot use %s with the key %s: %w; --tls-cert must be the certificate and --tls-key its "+
			"private "+
			"key, "+
			"both as PEM", c.cert, c.key, err)
	}
	c.now.Store(&pair)
	return nil
}

// get implements tls.Config.GetCertificate. While one connection reads the files, others get the certificate so far.
// If the files have become invalid, all do.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.reading.TryLock() {
		defer c.reading.Unlock()
		if state := dirwatch.State(c.cert, c.key); state != c.seen {
			c.seen = state
			if err := c.read(); err != nil {
				c.printf("parley: warning: the previous certificate stays in use: %s\n", terminal.Line(err.Error()))
			} else {
				c.printf("parley: loaded the renewed certificate, which is valid until %v\n",
					c.now.Load().Leaf.NotAfter)
			}
		}
	}
	return c.now.Load(), nil
}

// config returns the configuration of a server. HTTP/2 requires TLS 1.2 (RFC 9113, section 9.2).
func (c *certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}
}
