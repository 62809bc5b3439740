package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/store"
)

// roomy has a limit that no test reaches.
var roomy = store.AddOptions{TTL: forever, Max: 100_000}

func join(t tb, kv store.KV, set string, opt store.AddOptions, members ...string) {
	t.Helper()
	for _, member := range members {
		if err := kv.Add(context.Background(), set, member, opt); err != nil {
			t.Fatalf("Add(%.40q, %.40q, %+v): %v", set, member, opt, err)
		}
	}
}

func leave(t tb, kv store.KV, set string, members ...string) {
	t.Helper()
	for _, member := range members {
		if err := kv.Remove(context.Background(), set, member); err != nil {
			t.Fatalf("Remove(%.40q, %.40q): %v", set, member, err)
		}
	}
}

func wantMembersAfter(t tb, kv store.KV, set, after string, limit int, want ...string) {
	t.Helper()
	got, err := kv.List(context.Background(), set, after, limit)
	if err != nil {
		t.Fatalf("List(%.40q, %.40q, %d): %v", set, after, limit, err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("List(%.40q, %.40q, %d) = %.100q, want %.100q", set, after, limit, got, want)
	}
}

func wantMembers(t tb, kv store.KV, set string, want ...string) {
	t.Helper()
	wantMembersAfter(t, kv, set, "", store.MaxList, want...)
}

func wantSetFull(t tb, kv store.KV, set, member string, opt store.AddOptions) {
	t.Helper()
	err := kv.Add(context.Background(), set, member, opt)
	wantError(t, fmt.Sprintf("Add(%q, %q)", set, member), err, store.ErrFull)
	wantError(t, fmt.Sprintf("Add(%q, %q)", set, member), err, store.ErrConflict)
}

var setCases = []testCase[store.KV]{
	{"ListReturnsMembersInOrder", func(t tb, kv store.KV) {
		join(t, kv, "s", roomy, "b", "\xff", "a", "B", "ab", "a\x00", "å", "10", "9", "[", "(", "+", "-", "a b\r\n")
		wantMembers(t, kv, "s", "(", "+", "-", "10", "9", "B", "[", "a", "a\x00", "a b\r\n", "ab", "b", "å", "\xff")
	}},
	{"ListContinuesAfterAnyString", func(t tb, kv store.KV) {
		join(t, kv, "s", roomy, "b", "d", "f")
		wantMembersAfter(t, kv, "s", "b", 10, "d", "f")
		wantMembersAfter(t, kv, "s", "c", 10, "d", "f")
		wantMembersAfter(t, kv, "s", "c\xff", 10, "d", "f")
		wantMembersAfter(t, kv, "s", "f", 10)
		wantMembersAfter(t, kv, "s", "z", 10)
		wantMembersAfter(t, kv, "s", "A", 10, "b", "d", "f")
	}},
	{"LargeSetCanBeReadInParts", func(t tb, kv store.KV) {
		const n = 2*store.MaxList + 10
		for i := range n {
			join(t, kv, "s", roomy, fmt.Sprintf("%05d", i))
		}
		read, after := 0, ""
		for range 4 {
			part, err := kv.List(context.Background(), "s", after, store.MaxList)
			if err != nil {
				t.Fatal(err)
			}
			for _, member := range part {
				if want := fmt.Sprintf("%05d", read); member != want {
					t.Fatalf("member %d is %q, want %q", read, member, want)
				}
				read, after = read+1, member
			}
		}
		if read != n {
			t.Fatalf("List returned %d members in all, want %d", read, n)
		}
	}},
	{"ChangesDoNotMoveTheNextPart", func(t tb, kv store.KV) {
		join(t, kv, "s", roomy, "b", "d", "f", "h")
		wantMembersAfter(t, kv, "s", "", 2, "b", "d")
		leave(t, kv, "s", "b", "d")
		join(t, kv, "s", roomy, "a", "c")
		wantMembersAfter(t, kv, "s", "d", 2, "f", "h")
	}},
	{"AddOfMemberChangesNothing", func(t tb, kv store.KV) {
		join(t, kv, "s", roomy, "a", "b", "a", "a")
		wantMembers(t, kv, "s", "a", "b")
		leave(t, kv, "s", "a")
		wantMembers(t, kv, "s", "b")
	}},
	{"RemoveRemovesOneMemberAndIsIdempotent", func(t tb, kv store.KV) {
		leave(t, kv, "s", "a")
		join(t, kv, "s", roomy, "a", "ab", "b")
		leave(t, kv, "s", "a", "a", "unknown")
		wantMembers(t, kv, "s", "ab", "b")
	}},
	{"SetsAreIndependent", func(t tb, kv store.KV) {
		sets := []string{"s", "S", "s/", "s/a", "s/a/b", "s/a/b/c", "{s}", "}", "s*", "s\x00", "user/a/b/c/tasks",
			"user/a/b/c"}
		for _, set := range sets {
			join(t, kv, set, roomy, "of "+set)
		}
		for _, set := range sets {
			wantMembers(t, kv, set, "of "+set)
		}
	}},
	{"SetsAndKeysAreIndependent", func(t tb, kv store.KV) {
		join(t, kv, "k", roomy, "member")
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever, IfAbsent: true})
		wantMembers(t, kv, "k", "member")
		leave(t, kv, "k", "member")
		wantItem(t, kv, "k", "value", v)
		join(t, kv, "k", roomy, "member")
		if err := kv.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		wantMembers(t, kv, "k", "member")
	}},
	{"FullSetRejectsNewMembers", func(t tb, kv store.KV) {
		opt := store.AddOptions{TTL: forever, Max: 2}
		join(t, kv, "s", opt, "a", "b")
		wantSetFull(t, kv, "s", "c", opt)
		wantMembers(t, kv, "s", "a", "b")
		join(t, kv, "s", store.AddOptions{TTL: forever, Max: 3}, "c")
		wantSetFull(t, kv, "s", "d", opt)
	}},
	{"RemoveMakesRoomInFullSet", func(t tb, kv store.KV) {
		opt := store.AddOptions{TTL: forever, Max: 2}
		join(t, kv, "s", opt, "a", "b", "a", "b") // its members are accepted
		leave(t, kv, "s", "a")
		join(t, kv, "s", opt, "c")
		wantMembers(t, kv, "s", "b", "c")
		wantSetFull(t, kv, "s", "a", opt)
	}},
	{"InvalidArgumentsOfSetsReturnErrInvalidArgument", func(t tb, kv store.KV) {
		ctx, long := context.Background(), strings.Repeat("k", store.MaxKey+1)
		for name, err := range map[string]error{
			"no set":           kv.Add(ctx, "", "a", roomy),
			"no member":        kv.Add(ctx, "s", "", roomy),
			"a long set":       kv.Add(ctx, long, "a", roomy),
			"a long member":    kv.Add(ctx, "s", long, roomy),
			"no time to live":  kv.Add(ctx, "s", "a", store.AddOptions{Max: 1}),
			"no maximum":       kv.Add(ctx, "s", "a", store.AddOptions{TTL: forever}),
			"negative maximum": kv.Add(ctx, "s", "a", store.AddOptions{TTL: forever, Max: -1}),
		} {
			wantError(t, "Add with "+name, err, store.ErrInvalidArgument)
		}
		for _, limit := range []int{-1, 0, store.MaxList + 1} {
			_, err := kv.List(ctx, "s", "", limit)
			wantError(t, fmt.Sprint("List with limit ", limit), err, store.ErrInvalidArgument)
		}
		wantMembers(t, kv, "s")
	}},
	{"SetAndMemberMayHaveMaximumLength", func(t tb, kv store.KV) {
		set, member := strings.Repeat("s", store.MaxKey), strings.Repeat("m", store.MaxKey)
		join(t, kv, set, roomy, member)
		wantMembers(t, kv, set, member)
		wantMembersAfter(t, kv, set, member, 10)
	}},
	{"CancelledContextChangesNoSet", func(t tb, kv store.KV) {
		join(t, kv, "s", roomy, "a")
		ctx := cancelled()
		wantError(t, "Add", kv.Add(ctx, "s", "b", roomy), context.Canceled)
		wantError(t, "Remove", kv.Remove(ctx, "s", "a"), context.Canceled)
		_, err := kv.List(ctx, "s", "", 10)
		wantError(t, "List", err, context.Canceled)
		wantMembers(t, kv, "s", "a")
	}},
}

var brief = store.AddOptions{TTL: life, Max: 100}

var setTTLCases = []testCase[store.KV]{
	{"MemberExistsUntilItExpires", func(t tb, kv store.KV) {
		join(t, kv, "s", brief, "a")
		advance(kv, life/2)
		wantMembers(t, kv, "s", "a")
		advance(kv, life/2+slack)
		wantMembers(t, kv, "s")
	}},
	{"MembersExpireIndependently", func(t tb, kv store.KV) {
		join(t, kv, "s", roomy, "a", "c")
		join(t, kv, "s", brief, "b")
		join(t, kv, "t", brief, "a", "b")
		join(t, kv, "t", roomy, "c")
		advance(kv, life+slack)
		wantMembers(t, kv, "s", "a", "c")
		wantMembers(t, kv, "t", "c")
		wantMembersAfter(t, kv, "s", "a", 1, "c")
	}},
	{"AddExtendsTimeToLive", func(t tb, kv store.KV) {
		join(t, kv, "s", brief, "a")
		for range 3 {
			advance(kv, life/2)
			wantMembers(t, kv, "s", "a")
			join(t, kv, "s", brief, "a")
		}
		advance(kv, life+slack)
		wantMembers(t, kv, "s")
	}},
	{"AddNeverShortensTimeToLive", func(t tb, kv store.KV) {
		join(t, kv, "s", roomy, "a")
		join(t, kv, "s", brief, "a")
		advance(kv, life+slack)
		wantMembers(t, kv, "s", "a")
	}},
	{"ExpiredMembersDoNotCount", func(t tb, kv store.KV) {
		opt := store.AddOptions{TTL: life, Max: 3}
		join(t, kv, "s", opt, "a", "b", "c")
		wantSetFull(t, kv, "s", "d", opt)
		advance(kv, life+slack)
		opt.TTL = forever
		join(t, kv, "s", opt, "d", "e", "a")
		wantSetFull(t, kv, "s", "b", opt)
		wantMembers(t, kv, "s", "a", "d", "e")
	}},
	{"RejectedMemberDoesNotExtendTimeToLive", func(t tb, kv store.KV) {
		join(t, kv, "s", store.AddOptions{TTL: life, Max: 1}, "a")
		wantSetFull(t, kv, "s", "b", store.AddOptions{TTL: forever, Max: 1})
		advance(kv, life+slack)
		wantMembers(t, kv, "s")
	}},
	{"MaximumTimeToLiveOfMemberDoesNotOverflow", func(t tb, kv store.KV) {
		opt := store.AddOptions{TTL: math.MaxInt64, Max: 10}
		join(t, kv, "s", opt, "a", "a")
		advance(kv, slack)
		wantMembers(t, kv, "s", "a")
	}},
}
