package storetest

import (
	"context"

	"github.com/parley-mcp/parley/store"
)

var sharedCases = []testCase[keysAndStreams]{
	{"KeysAndStreamsAreIndependent", func(t tb, both keysAndStreams) {
		v := put(t, both, "k", "value", store.PutOptions{TTL: forever})
		add(t, both, stream("k", "k"), 1, 3, generous)
		wantItem(t, both, "k", "value", v)
		if err := both.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		wantAfter(t, both, stream("k", "k"), 0, 3)
	}},
}
