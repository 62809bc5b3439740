package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/store"
)

// roomy is a limit that no case reaches.
const roomy = 100_000

func add(set string, ttl time.Duration, limit int, members ...string) step {
	return func(r *run) {
		for _, member := range members {
			r.want(nil, r.set().Add(background, set, member, ttl, limit), "Add", set, member)
		}
	}
}

// take removes members from a set.
func take(set string, members ...string) step {
	return func(r *run) {
		for _, member := range members {
			r.want(nil, r.set().Remove(background, set, member), "Remove", set, member)
		}
	}
}

// tooMany checks that a set has no room for another member.
func tooMany(set, member string, limit int) step {
	return func(r *run) {
		err := r.set().Add(background, set, member, forever, limit)
		r.want(store.ErrFull, err, "Add", set, member)
		r.want(store.ErrConflict, err, "Add", set, member)
	}
}

func list(set, after string, limit int, want ...string) step {
	return func(r *run) {
		r.Helper()
		got, err := r.set().List(background, set, after, limit)
		r.want(nil, err, "List", set, after)
		if !slices.Equal(got, want) {
			r.Fatalf("List(%.40q, %.40q, %d) = %.100q, want %.100q", set, after, limit, got, want)
		}
	}
}

func members(set string, want ...string) step { return list(set, "", maxList, want...) }

// numbered returns the numbers from first up to, but not including, last as members that
// sort in the same order.
func numbered(first, last int) (members []string) {
	for i := first; i < last; i++ {
		members = append(members, fmt.Sprintf("%05d", i))
	}
	return members
}

var setCases = []testCase{
	{"ListReturnsMembersInOrder", []step{
		add("s", forever, roomy, "b", "\xff", "a", "B", "ab", "a\x00", "å", "10", "9", "[", "(", "+", "-", "a b\r\n"),
		members("s", "(", "+", "-", "10", "9", "B", "[", "a", "a\x00", "a b\r\n", "ab", "b", "å", "\xff")}},
	{"ListContinuesAfterAnyString", []step{add("s", forever, roomy, "b", "d", "f"), list("s", "b", 10, "d", "f"),
		list("s", "c", 10, "d", "f"), list("s", "c\xff", 10, "d", "f"), list("s", "f", 10), list("s", "z", 10),
		list("s", "A", 10, "b", "d", "f"), list("s", "", 2, "b", "d")}},
	{"LargeSetCanBeReadInParts", []step{add("s", forever, roomy, numbered(0, 2*maxList+10)...),
		list("s", "", maxList, numbered(0, maxList)...), list("s", "00999", maxList, numbered(1000, 2000)...),
		list("s", "01999", maxList, numbered(2000, 2010)...)}},
	{"ChangesDoNotMoveTheNextPart", []step{add("s", forever, roomy, "b", "d", "f", "h"), list("s", "", 2, "b", "d"),
		take("s", "b", "d"), add("s", forever, roomy, "a", "c"), list("s", "d", 2, "f", "h")}},
	{"AddAndRemoveAreIdempotent", []step{take("s", "a"), add("s", forever, roomy, "a", "ab", "b", "a", "a"),
		members("s", "a", "ab", "b"), take("s", "a", "a", "unknown"), members("s", "ab", "b")}},
	{"SetsAreIndependent", []step{
		forEach(names, func(set string) []step { return []step{add(set, forever, roomy, "of "+set)} }),
		forEach(names, func(set string) []step { return []step{members(set, "of "+set)} })}},
	{"SetsAndKeysAreIndependent", []step{add("k", forever, roomy, "member"), alsoA[store.KV](
		put("k", "value", ifAbsent), members("k", "member"), take("k", "member"), get("k", "value"),
		add("k", forever, roomy, "member"), remove("k"), members("k", "member"))}},
	{"FullSetRejectsNewMembers", []step{add("s", forever, 2, "a", "b", "a", "b"), tooMany("s", "c", 2),
		members("s", "a", "b"), take("s", "a"), add("s", forever, 2, "c"), members("s", "b", "c"),
		tooMany("s", "a", 2), add("s", forever, 3, "a"), tooMany("s", "d", 2)}},
	{"InvalidArgumentsChangeNothing", []step{invalid(map[string]func(r *run) error{
		"no set":        func(r *run) error { return r.set().Add(background, "", "a", forever, roomy) },
		"no member":     func(r *run) error { return r.set().Add(background, "s", "", forever, roomy) },
		"a long set":    func(r *run) error { return r.set().Add(background, longKey, "a", forever, roomy) },
		"a long member": func(r *run) error { return r.set().Add(background, "s", longKey, forever, roomy) },
		"no life":       func(r *run) error { return r.set().Add(background, "s", "a", 0, 1) },
		"no limit":      func(r *run) error { return r.set().Add(background, "s", "a", forever, 0) },
		"List of 0":     func(r *run) error { _, err := r.set().List(background, "s", "", 0); return err },
		"List of 1,001": func(r *run) error { _, err := r.set().List(background, "s", "", maxList+1); return err },
	}), members("s")}},
	{"NamesMayHaveMaximumLength", []step{add(longKey[1:], forever, roomy, strings.Repeat("m", maxKey)),
		members(longKey[1:], strings.Repeat("m", maxKey)), list(longKey[1:], strings.Repeat("m", maxKey), 10)}},
	{"CancelledContextChangesNothing", []step{add("s", forever, roomy, "a"),
		cancelled(map[string]func(r *run, ctx context.Context) error{
			"Add":    func(r *run, ctx context.Context) error { return r.set().Add(ctx, "s", "b", forever, roomy) },
			"Remove": func(r *run, ctx context.Context) error { return r.set().Remove(ctx, "s", "a") },
			"List":   func(r *run, ctx context.Context) error { _, err := r.set().List(ctx, "s", "", 10); return err },
		}), members("s", "a")}},
	{"MembersExpireIndependently", []step{add("s", forever, roomy, "a", "c"), add("s", life, roomy, "b"),
		add("t", life, roomy, "a", "b"), wait(life / 2), members("s", "a", "b", "c"), members("t", "a", "b"),
		wait(life/2 + slack), members("s", "a", "c"), members("t"), list("s", "a", 1, "c")}},
	{"AddExtendsTimeToLive", []step{add("s", life, roomy, "a"),
		times(3, wait(life/2), members("s", "a"), add("s", life, roomy, "a")), wait(life + slack), members("s")}},
	{"AddNeverShortensTimeToLive", []step{add("s", forever, roomy, "a"), add("s", life, roomy, "a"),
		wait(life + slack), members("s", "a")}},
	{"ExpiredMembersDoNotCount", []step{add("s", life, 3, "a", "b", "c"), tooMany("s", "d", 3), wait(life + slack),
		members("s"), add("s", forever, 3, "d", "e", "a"), tooMany("s", "b", 3), members("s", "a", "d", "e")}},
	{"MaximumTimeToLiveDoesNotOverflow", []step{add("s", math.MaxInt64, 10, "a", "a"), wait(slack),
		members("s", "a")}},
}
