package rpc_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/internal/rpc"
)

func TestPeerCacheIsLimited(t *testing.T) {
	var peers rpc.PeerCache
	for i := range 1000 {
		info := fmt.Appendf(nil, `{"name":"n%d","version":"1"}`, i)
		capabilities := fmt.Appendf(nil, `{"experimental":{"n%d":{}}}`, i)
		p, err := peers.Decode(info, capabilities)
		if err != nil || p.Info.Name != fmt.Sprintf("n%d", i) {
			t.Fatalf("%+v, %v", p, err)
		}
		if infos, caps := peers.Cached(); infos > 128 || caps > 128 {
			t.Fatalf("%d infos and %d capabilities are cached", infos, caps)
		}
	}
	before, _ := peers.Cached()
	long := fmt.Appendf(nil, `{"name":"%s","version":"1"}`, strings.Repeat("n", 5000))
	if _, err := peers.Decode(long, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if infos, _ := peers.Cached(); infos != before {
		t.Error("an info of 5 kB is cached")
	}
}

func TestPeerCacheDecodesEqualBytesOnce(t *testing.T) {
	var peers rpc.PeerCache
	info, capabilities := []byte(`{"name":"a","version":"1"}`), []byte(`{"roots":{}}`)
	first, err := peers.Decode(info, capabilities)
	if err != nil {
		t.Fatal(err)
	}
	info[9] = 'b' // the cache must not refer to the bytes of the caller
	info[9] = 'a'
	second, err := peers.Decode(info, capabilities)
	if err != nil || first != second {
		t.Errorf("%p and %p, %v", first.Info, second.Info, err)
	}
	unnamed, err := peers.Decode(nil, []byte("{}"))
	if err != nil || unnamed.Info == nil || unnamed.Info.Name != "" {
		t.Errorf("without info: %+v, %v", unnamed, err)
	}
}

func TestPeerCacheRejectsInvalidPeers(t *testing.T) {
	var peers rpc.PeerCache
	for _, test := range [][2]string{
		{`{"name":1}`, `{}`}, {`{"name":"a","name":"b"}`, `{}`}, {`{}`, `{"roots":[]}`}, {`{}`, ``},
	} {
		if p, err := peers.Decode([]byte(test[0]), []byte(test[1])); err == nil {
			t.Errorf("%s %s: %+v", test[0], test[1], p)
		}
	}
	if infos, caps := peers.Cached(); infos > 1 || caps > 1 {
		t.Errorf("%d infos and %d capabilities are cached", infos, caps)
	}
}

func TestPeerCacheIsSafeForConcurrentUse(t *testing.T) {
	var peers rpc.PeerCache
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 300 {
				want := fmt.Sprintf("n%d", (i+j)%200)
				p, err := peers.Decode(fmt.Appendf(nil, `{"name":%q,"version":"1"}`, want), []byte(`{}`))
				if err != nil || p.Info.Name != want {
					t.Errorf("%+v, %v", p, err)
				}
			}
		})
	}
	wg.Wait()
}
