package redisstore

import (
	"strings"
	"testing"
)

// tag returns the hash tag of a Redis key: the text between the first brace and the next
// closing one.
func tag(name string) string {
	_, rest, _ := strings.Cut(name, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

func TestHashTagIsOwnerKindAndID(t *testing.T) {
	s := &Store{prefix: DefaultPrefix}
	for key, want := range map[string]string{
		"anonymous/session/1":                   "/anonymous/session/1",
		"anonymous/session/1/stream/2":          "/anonymous/session/1",
		"local/task/1/":                         "/local/task/1",
		"user/issuer/subject/client/session/1":  "/user/issuer/subject/client/session/1",
		"user/issuer/subject/client/session/1/": "/user/issuer/subject/client/session/1",
		"user/issuer/subject//session/1/x":      "/user/issuer/subject//session/1",
		"user/issuer/subject/client/tasks":      "/user/issuer/subject/client/tasks",
		"replica/1":                             "/replica/1",
		"k":                                     "/k",
		"}":                                     "/",
		"{}/x":                                  "/{",
	} {
		for _, kind := range []string{itemKind, membersKind, expiryKind, groupKind} {
			if got := tag(s.name(kind, key)); got != want {
				t.Errorf("the hash tag of %q is %q, want %q", key, got, want)
			}
		}
	}
}

func FuzzKeysHaveDifferentNames(f *testing.F) {
	f.Add("a/b/c", "a/b/c}")
	f.Add("a/b/c}/d", "a/b/c/d")
	f.Add("user/a/b/c/d/e/f", "user/a/b/c/d/e}/f")
	f.Add("a/b/c/d}e", "a/b/c}/d}e")
	f.Fuzz(func(t *testing.T, a, b string) {
		s := &Store{prefix: DefaultPrefix}
		for _, kinds := range [][2]string{{itemKind, itemKind}, {itemKind, groupKind}, {membersKind, expiryKind}} {
			same := a == b && kinds[0] == kinds[1]
			if got := s.name(kinds[0], a) == s.name(kinds[1], b); got != same {
				t.Errorf("keys %q and %q of kinds %q have the same name: %v, want %v", a, b, kinds, got, same)
			}
			if tag(s.name(kinds[0], a)) == "" {
				t.Errorf("key %q has an empty hash tag", a)
			}
		}
	})
}
