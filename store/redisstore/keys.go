package redisstore

import "strings"

// Kinds of Redis keys.
const (
	itemKind    = "k"
	membersKind = "m" // sorted set of the members of a set, all with score 0
	expiryKind  = "x" // sorted set of the members of a set, by time of expiry
	groupKind   = "g" // hash with the streams of a group
)

// name returns the Redis key for a key of the store. All keys of one session or task
// are in one slot of a cluster, so that they fail and move together: the hash tag is the
// part of the key that names the owner, the kind and the id.
func (s *redisStore) name(kind, key string) string {
	n := tagLength(key)
	var b strings.Builder
	b.Grow(len(s.prefix) + len(kind) + len(key) + len(":{/}"))
	b.WriteString(s.prefix)
	b.WriteString(kind)
	b.WriteString(":{/") // an empty tag would not be a tag
	b.WriteString(key[:n])
	b.WriteByte('}')
	b.WriteString(key[n:])
	return b.String()
}

// tagLength returns the length of the part of a key that determines its slot: the owner
// and two segments. The owner is the key of a principal, which consists of four
// segments if it starts with "user/", and otherwise of one.
func tagLength(key string) int {
	segments := 3
	if strings.HasPrefix(key, "user/") {
		segments = 6
	}
	for i := range len(key) {
		if key[i] == '/' {
			if segments--; segments == 0 {
				return i
			}
		}
	}
	return len(key)
}
