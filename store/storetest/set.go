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

// roomy is a limit that no test reaches.
const roomy = 100_000

func join(t tb, kv store.KV, set string, ttl time.Duration, limit int, members ...string) {
	t.Helper()
	for _, member := range members {
		if err := kv.Add(context.Background(), set, member, ttl, limit); err != nil {
			t.Fatalf("Add(%.40q, %.40q, %v, %d): %v", set, member, ttl, limit, err)
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
	wantMembersAfter(t, kv, set, "", maxList, want...)
}

func wantSetFull(t tb, kv store.KV, set, member string, ttl time.Duration, limit int) {
	t.Helper()
	err := kv.Add(context.Background(), set, member, ttl, limit)
	wantError(t, fmt.Sprintf("Add(%q, %q)", set, member), err, store.ErrFull)
	wantError(t, fmt.Sprintf("Add(%q, %q)", set, member), err, store.ErrConflict)
}

var setCases = []testCase[store.KV]{
	{"ListReturnsMembersInOrder", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, roomy, "b", "\xff", "a", "B", "ab", "a\x00", "å", "10", "9", "[", "(", "+", "-",
			"a b\r\n")
		wantMembers(t, kv, "s", "(", "+", "-", "10", "9", "B", "[", "a", "a\x00", "a b\r\n", "ab", "b", "å", "\xff")
	}},
	{"ListContinuesAfterAnyString", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, roomy, "b", "d", "f")
		wantMembersAfter(t, kv, "s", "b", 10, "d", "f")
		wantMembersAfter(t, kv, "s", "c", 10, "d", "f")
		wantMembersAfter(t, kv, "s", "c\xff", 10, "d", "f")
		wantMembersAfter(t, kv, "s", "f", 10)
		wantMembersAfter(t, kv, "s", "z", 10)
		wantMembersAfter(t, kv, "s", "A", 10, "b", "d", "f")
	}},
	{"LargeSetCanBeReadInParts", func(t tb, kv store.KV) {
		const n = 2*maxList + 10
		for i := range n {
			join(t, kv, "s", forever, roomy, fmt.Sprintf("%05d", i))
		}
		read, after := 0, ""
		for range 4 {
			part, err := kv.List(context.Background(), "s", after, maxList)
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
		join(t, kv, "s", forever, roomy, "b", "d", "f", "h")
		wantMembersAfter(t, kv, "s", "", 2, "b", "d")
		leave(t, kv, "s", "b", "d")
		join(t, kv, "s", forever, roomy, "a", "c")
		wantMembersAfter(t, kv, "s", "d", 2, "f", "h")
	}},
	{"AddOfMemberChangesNothing", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, roomy, "a", "b", "a", "a")
		wantMembers(t, kv, "s", "a", "b")
		leave(t, kv, "s", "a")
		wantMembers(t, kv, "s", "b")
	}},
	{"RemoveRemovesOneMemberAndIsIdempotent", func(t tb, kv store.KV) {
		leave(t, kv, "s", "a")
		join(t, kv, "s", forever, roomy, "a", "ab", "b")
		leave(t, kv, "s", "a", "a", "unknown")
		wantMembers(t, kv, "s", "ab", "b")
	}},
	{"SetsAreIndependent", func(t tb, kv store.KV) {
		sets := []string{"s", "S", "s/", "s/a", "s/a/b", "s/a/b/c", "{s}", "}", "s*", "s\x00", "user/a/b/c/tasks",
			"user/a/b/c"}
		for _, set := range sets {
			join(t, kv, set, forever, roomy, "of "+set)
		}
		for _, set := range sets {
			wantMembers(t, kv, set, "of "+set)
		}
	}},
	{"SetsAndKeysAreIndependent", func(t tb, kv store.KV) {
		join(t, kv, "k", forever, roomy, "member")
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever, IfAbsent: true})
		wantMembers(t, kv, "k", "member")
		leave(t, kv, "k", "member")
		wantItem(t, kv, "k", "value", v)
		join(t, kv, "k", forever, roomy, "member")
		if err := kv.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		wantMembers(t, kv, "k", "member")
	}},
	{"FullSetRejectsNewMembers", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, 2, "a", "b")
		wantSetFull(t, kv, "s", "c", forever, 2)
		wantMembers(t, kv, "s", "a", "b")
		join(t, kv, "s", forever, 3, "c")
		wantSetFull(t, kv, "s", "d", forever, 2)
	}},
	{"RemoveMakesRoomInFullSet", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, 2, "a", "b", "a", "b") // its members are accepted
		leave(t, kv, "s", "a")
		join(t, kv, "s", forever, 2, "c")
		wantMembers(t, kv, "s", "b", "c")
		wantSetFull(t, kv, "s", "a", forever, 2)
	}},
	{"InvalidArgumentsOfSetsReturnErrInvalidArgument", func(t tb, kv store.KV) {
		ctx, long := context.Background(), strings.Repeat("k", maxKey+1)
		for name, err := range map[string]error{
			"no set":           kv.Add(ctx, "", "a", forever, roomy),
			"no member":        kv.Add(ctx, "s", "", forever, roomy),
			"a long set":       kv.Add(ctx, long, "a", forever, roomy),
			"a long member":    kv.Add(ctx, "s", long, forever, roomy),
			"no time to live":  kv.Add(ctx, "s", "a", 0, 1),
			"no maximum":       kv.Add(ctx, "s", "a", forever, 0),
			"negative maximum": kv.Add(ctx, "s", "a", forever, -1),
		} {
			wantError(t, "Add with "+name, err, store.ErrInvalidArgument)
		}
		for _, limit := range []int{-1, 0, maxList + 1} {
			_, err := kv.List(ctx, "s", "", limit)
			wantError(t, fmt.Sprint("List with limit ", limit), err, store.ErrInvalidArgument)
		}
		wantMembers(t, kv, "s")
	}},
	{"SetAndMemberMayHaveMaximumLength", func(t tb, kv store.KV) {
		set, member := strings.Repeat("s", maxKey), strings.Repeat("m", maxKey)
		join(t, kv, set, forever, roomy, member)
		wantMembers(t, kv, set, member)
		wantMembersAfter(t, kv, set, member, 10)
	}},
	{"CancelledContextChangesNoSet", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, roomy, "a")
		ctx := cancelled()
		wantError(t, "Add", kv.Add(ctx, "s", "b", forever, roomy), context.Canceled)
		wantError(t, "Remove", kv.Remove(ctx, "s", "a"), context.Canceled)
		_, err := kv.List(ctx, "s", "", 10)
		wantError(t, "List", err, context.Canceled)
		wantMembers(t, kv, "s", "a")
	}},
}

var setTTLCases = []testCase[store.KV]{
	{"MemberExistsUntilItExpires", func(t tb, kv store.KV) {
		join(t, kv, "s", life, roomy, "a")
		advance(kv, life/2)
		wantMembers(t, kv, "s", "a")
		advance(kv, life/2+slack)
		wantMembers(t, kv, "s")
	}},
	{"MembersExpireIndependently", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, roomy, "a", "c")
		join(t, kv, "s", life, roomy, "b")
		join(t, kv, "t", life, roomy, "a", "b")
		join(t, kv, "t", forever, roomy, "c")
		advance(kv, life+slack)
		wantMembers(t, kv, "s", "a", "c")
		wantMembers(t, kv, "t", "c")
		wantMembersAfter(t, kv, "s", "a", 1, "c")
	}},
	{"AddExtendsTimeToLive", func(t tb, kv store.KV) {
		join(t, kv, "s", life, roomy, "a")
		for range 3 {
			advance(kv, life/2)
			wantMembers(t, kv, "s", "a")
			join(t, kv, "s", life, roomy, "a")
		}
		advance(kv, life+slack)
		wantMembers(t, kv, "s")
	}},
	{"AddNeverShortensTimeToLive", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, roomy, "a")
		join(t, kv, "s", life, roomy, "a")
		advance(kv, life+slack)
		wantMembers(t, kv, "s", "a")
	}},
	{"ExpiredMembersDoNotCount", func(t tb, kv store.KV) {
		join(t, kv, "s", life, 3, "a", "b", "c")
		wantSetFull(t, kv, "s", "d", life, 3)
		advance(kv, life+slack)
		join(t, kv, "s", forever, 3, "d", "e", "a")
		wantSetFull(t, kv, "s", "b", forever, 3)
		wantMembers(t, kv, "s", "a", "d", "e")
	}},
	{"RejectedMemberDoesNotExtendTimeToLive", func(t tb, kv store.KV) {
		join(t, kv, "s", life, 1, "a")
		wantSetFull(t, kv, "s", "b", forever, 1)
		advance(kv, life+slack)
		wantMembers(t, kv, "s")
	}},
	{"MaximumTimeToLiveOfMemberDoesNotOverflow", func(t tb, kv store.KV) {
		join(t, kv, "s", math.MaxInt64, 10, "a", "a")
		advance(kv, slack)
		wantMembers(t, kv, "s", "a")
	}},
}
