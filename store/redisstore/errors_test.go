package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// reply is an error that Redis has answered.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestErrorsOfRedisAreExplained(t *testing.T) {
	for text, want := range map[string]struct {
		advice      string
		unavailable bool
	}{
		"NOPERM User ada has no permissions to run the 'get' command":       {"grant the user", false},
		"ERR unknown command 'UNLINK', with args beginning with: ":          {"version 7", false},
		"ERR max number of clients reached":                                 {"maxclients", true},
		"ERR max number of clients + cluster connections reached":           {"maxclients", true},
		"LOADING Redis is loading the dataset in memory":                    {"starting", true},
		"WRONGTYPE Operation against a key holding the wrong kind of value": {"another program", false},
		"ERR syntax error": {"redisstore: ERR syntax error", false},
	} {
		err := explain(context.Background(), reply(text))
		if !strings.Contains(err.Error(), want.advice) || !strings.Contains(err.Error(), text) || errors.Is(err, ErrUnavailable) != want.unavailable {
			t.Errorf("explain(%q) = %v, want an error with %q that wraps ErrUnavailable: %v", text, err, want.advice, want.unavailable)
		}
	}
}
