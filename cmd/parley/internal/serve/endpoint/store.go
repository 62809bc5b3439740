package endpoint

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store/redisstore"
)

// storeFlags are the flags for the state that the replicas of a server share.
type storeFlags struct {
	url     string
	keyFile string
}

func (f *storeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "store", "",
		"keep sessions and tasks in Redis at this `URL`, so that replicas share them")
	cmd.Flags().StringVar(&f.keyFile, "key-file", "",
		"read the keys for encryption from this `file`, which all replicas need")
}

// Apply sets the keys and the store of s before the server starts. The caller closes the store
// after the server is shut down. Without the flags, the state stays in memory.
func (f *storeFlags) Apply(cmd *cobra.Command, s *server.Server) (closeStore func(), err error) {
	// also if the value is empty by mistake
	stored, keyed := cmd.Flags().Changed("store"), cmd.Flags().Changed("key-file")
	if keyed {
		if s.Keys, err = readKeys(f.keyFile); err != nil {
			return nil, fmt.Errorf("--key-file: %w", err)
		}
	}
	switch {
	case !stored:
		return func() {}, nil
	case !keyed:
		return nil,
			errors.New("--store requires keys that the replicas share; make a key with openssl rand -base64 32 " +
				">FILE, and add --key-file FILE")
	}
	options, err := parseStore(f.url)
	if err != nil {
		return nil, fmt.Errorf("--store: %s", strings.TrimPrefix(err.Error(), "redisstore: "))
	}
	if options.Prefix == "" { // servers with one prefix are replicas of one server
		options.Prefix = prefixOf(s.Name)
	}
	logging.Disable() // the errors of the operations are logged
	opened, err := redisstore.Open(cmd.Context(), options)
	if err != nil {
		return nil, explainStore(options.Addrs[0], err)
	}
	s.Store = opened
	return func() { _ = opened.Close() }, nil // the server has ended, so an error changes nothing
}

// prefixOf returns the prefix of the keys of a server. It has no braces, which have a meaning in a cluster.
func prefixOf(name string) string {
	return redisstore.DefaultPrefix + strings.NewReplacer("{", "_", "}", "_").Replace(name) + ":"
}

// parseStore parses a URL that can refer to environment variables.
func parseStore(text string) (redisstore.Options, error) {
	// A URL with references does not parse: { must not occur in a user or a host.
	if u, err := url.Parse(text); err == nil {
		if _, literal := u.User.Password(); literal {
			return redisstore.Options{},
				errors.New("other users can see the password on the command line; write '${NAME}' " +
					"instead, which refers to an environment variable")
		}
	}
	expanded, err := dialing.PlainValues().Expand(text)
	if err != nil {
		return redisstore.Options{}, err
	}
	return redisstore.ParseURL(expanded)
}

// explainStore says what the user can do about an error of opening the store at an address.
func explainStore(addr string, err error) error {
	var dial *net.OpError
	text := strings.TrimPrefix(err.Error(), "redisstore: ")
	switch {
	// dial is not wrapped, because explain would add advice for MCP servers
	case errors.As(err, &dial) && dial.Op == "dial":
		return failure.Unreachable(
			fmt.Errorf("cannot connect to the store: %v; check that Redis runs, and the URL of --store", dial))
	case errors.Is(err, redisstore.ErrUnavailable):
		return failure.Unreachable(fmt.Errorf("cannot connect to the store at %s: %s", addr, text))
	case errors.Is(err, redisstore.ErrEviction):
		return fmt.Errorf("cannot use the store at %s: %s with allow-eviction=true in the URL", addr, text)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("cannot use the store at %s: %s; parley serve --help shows the forms of the URL", addr, text)
}

const MinKey = 32 // bytes

// readKeys reads a file with a key on each line. Errors do not contain the keys.
func readKeys(path string) (keys [][]byte, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: line %d must be a key in base64, such as openssl rand -base64 32 prints", path,
				number)
		case len(key) < MinKey:
			return nil, fmt.Errorf("%s: line %d: a key must have at least %d bytes, got %d", path, number, MinKey,
				len(key))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("file %s contains no keys; add one with openssl rand -base64 32 >>%s", path, path)
	}
	return keys, nil
}
