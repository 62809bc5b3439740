package redisstore

import (
	"context"
	"crypto/sha1" // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/put.lua
	putSource string
	//go:embed lua/replace.lua
	replaceSource string
	//go:embed lua/touch.lua
	touchSource string
	//go:embed lua/set.lua
	setSource string
	//go:embed lua/add.lua
	addSource string
	//go:embed lua/remove.lua
	removeSource string
	//go:embed lua/list.lua
	listSource string
	//go:embed lua/append.lua
	appendSource string
	//go:embed lua/readafter.lua
	readAfterSource string

	putScript     = newScript(putSource)
	replaceScript = newScript(replaceSource)
	touchScript   = newScript(touchSource)
	addScript     = newScript(setSource + addSource)
	// addFullScript may run when the memory is full, to accept members that the set already
	// contains.
	addFullScript   = newScript("#!lua flags=allow-oom\n" + setSource + addSource)
	removeScript    = newScript(removeSource)
	listScript      = newScript(setSource + listSource)
	appendScript    = newScript(appendSource)
	readAfterScript = newScript(readAfterSource)
)

// script is a Lua script. Redis runs it atomically.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

// run executes the script by its hash, and sends the source if the Redis server does not
// know it, for instance after a restart.
func (sc script) run(ctx context.Context, s *redisStore, keys []string, arguments ...any) (any, error) {
	result, err := sc.eval(ctx, s, "evalsha", sc.sha, keys, arguments)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		result, err = sc.eval(ctx, s, "eval", sc.source, keys, arguments)
	}
	return result, err
}

func (sc script) eval(ctx context.Context, s *redisStore, command, name string, keys []string,
	arguments []any) (any, error) {
	args := make([]any, 0, 3+len(keys)+len(arguments))
	args = append(args, command, name, strconv.Itoa(len(keys)))
	for _, key := range keys {
		args = append(args, key)
	}
	return once(ctx, s, redis.NewCmd(ctx, append(args, arguments...)...))
}

// Pauses before a command that Redis has rejected is sent again.
const (
	minPause = 5 * time.Millisecond
	maxPause = 320 * time.Millisecond
)

// once executes a command that go-redis must not send again, because the first attempt may
// have been executed. Commands that Redis rejected without executing them are sent again: to
// the server that owns the slot after MOVED, and for less than a second while Redis says
// that it will accept them soon.
func once(ctx context.Context, s *redisStore, command *redis.Cmd) (any, error) {
	for pause := minPause; ; pause *= 2 {
		err := s.process(ctx, unrepeatable{command})
		switch {
		case err == nil:
			return command.Val(), nil
		case pause > maxPause || !rejected(err):
			return nil, explain(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// rejected reports whether Redis has not executed a command but may execute it soon.
func rejected(err error) bool {
	return redis.IsTryAgainError(err) || redis.IsClusterDownError(err) || redis.IsLoadingError(err) ||
		redis.IsMasterDownError(err) || redis.IsReadOnlyError(err)
}

type unrepeatable struct{ *redis.Cmd }

func (unrepeatable) NoRetry() bool { return true }
