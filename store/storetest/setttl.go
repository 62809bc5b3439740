package storetest

import (
	"math"

	"github.com/parley-mcp/parley/store"
)

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
	{"ListDoesNotExtendTimeToLive", func(t tb, kv store.KV) {
		join(t, kv, "s", brief, "a")
		advance(kv, life/2)
		wantMembers(t, kv, "s", "a")
		advance(kv, life/2+slack)
		wantMembers(t, kv, "s")
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
