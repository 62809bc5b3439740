package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/store"
)

// opt is a condition or a time to live of a write. Without any, a write is unconditional and never expires.
type opt func(r *run, key string, o *store.PutOptions)

func ifAbsent(_ *run, _ string, o *store.PutOptions) { o.IfAbsent = true }

// ifWrite is the condition that the item has the version of an earlier write of the key: 0 is the latest write, 1
// the one before.
func ifWrite(n int) opt {
	return func(r *run, key string, o *store.PutOptions) {
		o.IfVersion = r.versions[key][len(r.versions[key])-1-n]
	}
}

func ifVersion(version uint64) opt {
	return func(_ *run, _ string, o *store.PutOptions) { o.IfVersion = version }
}

func ttl(d time.Duration) opt { return func(_ *run, _ string, o *store.PutOptions) { o.TTL = d } }

func (r *run) put(key, value string, opts []opt) (uint64, error) {
	o := store.PutOptions{TTL: forever}
	for _, set := range opts {
		set(r, key, &o)
	}
	return r.kv().Put(background, key, []byte(value), o)
}

// put writes an item. Its version must differ from all earlier versions of the key.
func put(key, value string, opts ...opt) step {
	return func(r *run) {
		r.Helper()
		version, err := r.put(key, value, opts)
		r.want(nil, err, "Put", key)
		if version == 0 || slices.Contains(r.versions[key], version) {
			r.Fatalf("Put(%.40q) returned version %d after versions %v", key, version, r.versions[key])
		}
		r.versions[key] = append(r.versions[key], version)
	}
}

// putFails checks that a write returns an error and no version.
func putFails(want error, key string, opts ...opt) step {
	return func(r *run) {
		r.Helper()
		version, err := r.put(key, "unwanted", opts)
		r.want(want, err, "Put", key)
		if version != 0 {
			r.Fatalf("Put(%.40q) failed and returned version %d", key, version)
		}
	}
}

// get checks that an item has this value and the version of the latest write.
func get(key, value string) step {
	return func(r *run) {
		r.Helper()
		item, err := r.kv().Get(background, key)
		r.want(nil, err, "Get", key)
		r.wantItem("Get", key, value, item)
	}
}

func (r *run) wantItem(operation, key, value string, item store.Item) {
	r.Helper()
	if latest := r.versions[key]; string(item.Value) != value || item.Version != latest[len(latest)-1] {
		r.Fatalf("%s(%.40q) = %.40q version %d, want %.40q and the last of versions %v", operation, key, item.Value,
			item.Version, value, latest)
	}
}

// none checks that there is no item at key.
func none(key string) step {
	return func(r *run) {
		r.Helper()
		item, err := r.kv().Get(background, key)
		r.want(store.ErrNotFound, err, "Get", key)
		if item.Value != nil || item.Version != 0 {
			r.Fatalf("Get(%.40q) failed and returned %+v", key, item)
		}
		_, err = r.kv().Touch(background, key, forever)
		r.want(store.ErrNotFound, err, "Touch", key)
	}
}

// touch extends the life of an item with this value.
func touch(key, value string, ttl time.Duration) step {
	return func(r *run) {
		r.Helper()
		item, err := r.kv().Touch(background, key, ttl)
		r.want(nil, err, "Touch", key, ttl)
		r.wantItem("Touch", key, value, item)
	}
}

func remove(key string) step {
	return func(r *run) { r.want(nil, r.kv().Delete(background, key), "Delete", key) }
}

// Names with bytes that mean something to some store. names are also prefixes of each other.
var names = []string{"a", "A", "a/", "a/b", "a/b/c", "a/b/c}", "a*", "a?", "[a]", "{a}", "{}a", "}a", "{", "a b",
	"a\x00", "a\r\n", "\xff\xfe", "å", "a\u030a", "user/a/b/c/d/e", "user/a/b/c/d/e/f", "user/"}

var longKey = strings.Repeat("k", maxKey+1)

var kvCases = []testCase{
	{"KeysAndValuesMayHaveAnyBytes", []step{
		forEach(names, func(key string) []step { return []step{put(key, "of "+key+"\x00\r\n\xff", ifAbsent)} }),
		forEach(names, func(key string) []step { return []step{get(key, "of "+key+"\x00\r\n\xff")} }),
	}},
	{"ValuesMayHaveAnyLength", []step{
		each(40, func(n int) []step {
			value := strings.Repeat("\x00", n)
			return []step{put("k", value), get("k", value), putFails(store.ErrConflict, "k", ifAbsent)}
		}),
		put(longKey[1:], strings.Repeat("v", maxValue)),
		get(longKey[1:], strings.Repeat("v", maxValue)),
	}},
	{"PutReplacesValueAndVersion", []step{put("k", "one"), put("k", "two"), get("k", "two"), put("k", "two"),
		get("k", "two")}},
	{"ValuesNeverChange", []step{func(r *run) {
		value := []byte("first")
		_, err := r.kv().Put(background, "k", value, store.PutOptions{TTL: forever})
		r.want(nil, err, "Put")
		copy(value, "WRONG")
		got, err := r.kv().Get(background, "k")
		r.want(nil, err, "Get")
		put("k", "other")(r)
		remove("k")(r)
		put("k", "third")(r)
		if string(got.Value) != "first" {
			r.Fatalf("the value that Get returned became %q", got.Value)
		}
	}}},
	{"IfAbsentConflictsWithAnItem", []step{put("k", "first", ifAbsent), putFails(store.ErrConflict, "k", ifAbsent),
		get("k", "first"), remove("k"), put("k", "second", ifAbsent), get("k", "second")}},
	{"IfVersionReplacesOnlyThatVersion", []step{put("k", "one"), put("k", "two", ifWrite(0)),
		putFails(store.ErrConflict, "k", ifWrite(1)), putFails(store.ErrConflict, "k", ifVersion(1<<40+12345)),
		get("k", "two"), touch("k", "two", 2*forever), put("k", "three", ifWrite(0)), get("k", "three")}},
	{"IfVersionConflictsWithAbsentKey", []step{putFails(store.ErrConflict, "k", ifVersion(1)), none("k"),
		put("k", "one"), remove("k"), putFails(store.ErrConflict, "k", ifWrite(0)), none("k")}},
	{"VersionOfAnotherKeyConflicts", []step{put("a", "value"), put("b", "value"),
		times(3, put("b", "value", ifWrite(0))), // creates versions that a counter per key would assign
		func(r *run) {
			b := r.versions["b"]
			if last := b[len(b)-1]; last != r.versions["a"][0] {
				putFails(store.ErrConflict, "a", ifVersion(last))(r)
			}
		}, get("a", "value")}},
	{"VersionsAreNotReused", []step{times(4, put("k", "same", ifAbsent), remove("k")),
		times(3, put("k", "same", ifAbsent, ttl(life/4)), wait(life/4+slack))}},
	{"DeleteRemovesOneKeyAndIsIdempotent", []step{put("k", "value"), put("k/child", "value"),
		times(2, remove("k"), none("k")), get("k/child", "value")}},
	{"InvalidArgumentsChangeNothing", []step{put("k", "value"),
		putFails(store.ErrInvalidArgument, "k", ttl(0)), putFails(store.ErrInvalidArgument, "k", ttl(-1)),
		putFails(store.ErrInvalidArgument, "k", ifAbsent, ifWrite(0)), putFails(store.ErrInvalidArgument, ""),
		putFails(store.ErrInvalidArgument, longKey),
		invalid(map[string]func(r *run) error{
			"Put of a long value": func(r *run) error {
				_, err := r.put("k", strings.Repeat("v", maxValue+1), nil)
				return err
			},
			"Touch without life":     func(r *run) error { _, err := r.kv().Touch(background, "k", 0); return err },
			"Touch of negative life": func(r *run) error { _, err := r.kv().Touch(background, "k", -1); return err },
		}), get("k", "value")}},
	{"CancelledContextChangesNothing", []step{put("k", "value"),
		cancelled(map[string]func(r *run, ctx context.Context) error{
			"Get": func(r *run, ctx context.Context) error { _, err := r.kv().Get(ctx, "k"); return err },
			"Put": func(r *run, ctx context.Context) error {
				_, err := r.kv().Put(ctx, "k", nil, store.PutOptions{TTL: forever})
				return err
			},
			"Touch":  func(r *run, ctx context.Context) error { _, err := r.kv().Touch(ctx, "k", forever); return err },
			"Delete": func(r *run, ctx context.Context) error { return r.kv().Delete(ctx, "k") },
		}), get("k", "value")}},
	{"ItemExistsUntilItExpires", []step{put("k", "value", ttl(life)), put("short", "value", ttl(1)), wait(life / 2),
		get("k", "value"), none("short"), wait(life/2 + slack), none("k"),
		putFails(store.ErrConflict, "k", ifWrite(0)), put("k", "new", ifAbsent), get("k", "new")}},
	{"PutResetsTimeToLive", []step{put("longer", "value", ttl(life)), put("shorter", "value"),
		put("shorter", "value", ttl(life)), put("longer", "value"), wait(life + slack), get("longer", "value"),
		none("shorter")}},
	{"TouchExtendsTimeToLive", []step{put("k", "value", ttl(life)),
		times(3, wait(life/2), touch("k", "value", life), get("k", "value")), wait(life + slack), none("k")}},
	{"TouchNeverShortensTimeToLive", []step{put("k", "value"), touch("k", "value", life), wait(life + slack),
		get("k", "value")}},
	{"ConflictDoesNotExtendTimeToLive", []step{put("k", "value", ttl(life)),
		putFails(store.ErrConflict, "k", ifAbsent), wait(life + slack), none("k")}},
	{"MaximumTimeToLiveDoesNotOverflow", []step{put("k", "value", ttl(math.MaxInt64)), wait(slack),
		touch("k", "value", math.MaxInt64), wait(slack), get("k", "value")}},
	{"ConcurrentWritesWithAConditionAreAtomic", []step{func(r *run) {
		const each = 10
		var created atomic.Int32
		race(func(int) {
			for range each {
				for done := false; !done; {
					item, err := r.kv().Get(background, "counter")
					o := store.PutOptions{TTL: forever, IfVersion: item.Version, IfAbsent: item.Version == 0}
					if errors.Is(err, store.ErrNotFound) {
						err = nil
					}
					if err == nil {
						_, err = r.kv().Put(background, "counter", append(slices.Clone(item.Value), '+'), o)
					}
					if done = err == nil; done && o.IfAbsent {
						created.Add(1)
					}
					if err != nil && !errors.Is(err, store.ErrConflict) {
						r.Errorf("Get or Put: %v", err)
						return
					}
				}
			}
		})
		item, err := r.kv().Get(background, "counter")
		if err != nil || len(item.Value) != racers*each || created.Load() != 1 {
			r.Fatalf("%d of %d writes remain, and %d created the item: %v", len(item.Value), racers*each,
				created.Load(), err)
		}
	}}},
}

const kilobyte = 1 << 10

// kilobytes is a value of 1 KiB.
var kilobytes = strings.Repeat("x", kilobyte)

// fill writes items "k0", "k1" and so on until the KV is full. Then it runs the steps that then returns for
// their number.
func fill(life time.Duration, then func(n int) []step) step {
	return func(r *run) {
		n := 0
		for ; ; n++ {
			version, err := r.put(fmt.Sprint("k", n), kilobytes, []opt{ttl(life)})
			if errors.Is(err, store.ErrFull) && version == 0 && n >= 4 {
				break
			}
			if err != nil || n == 10_000 {
				r.Fatalf("Put of item %d of 1 KiB returned version %d, error %v", n, version, err)
			}
			r.versions[fmt.Sprint("k", n)] = []uint64{version}
		}
		for _, step := range then(n) {
			step(r)
		}
	}
}

var fullCases = []testCase{
	{"FullStoreKeepsItems", []step{fill(forever, func(n int) []step {
		return []step{each(n, func(i int) []step { return []step{get(fmt.Sprint("k", i), kilobytes)} }),
			none(fmt.Sprint("k", n)), touch("k0", kilobytes, 2*forever),
			put("k1", strings.Repeat("y", kilobyte), ifWrite(0)), get("k1", strings.Repeat("y", kilobyte)),
			putFails(store.ErrConflict, "k1", ifAbsent), putFails(store.ErrConflict, "none", ifVersion(1))}
	})}},
	{"DeleteFreesSpace", []step{fill(forever, func(n int) []step {
		// Each round writes a little less than it deletes, because other things may use the memory of the store, too.
		// In total, the rounds write more than fits.
		some := (n + 3) / 4
		return []step{times(8, each(some, func(i int) []step { return []step{remove(fmt.Sprint("k", i))} }),
			each(some-some/4, func(i int) []step { return []step{put(fmt.Sprint("k", i), kilobytes)} }))}
	})}},
	{"ExpiryFreesSpace", []step{fill(life, func(n int) []step {
		return []step{wait(life + slack), each(n-n/8, func(i int) []step {
			return []step{put(fmt.Sprint("new", i), kilobytes[8:])}
		})}
	})}},
	{"FullStoreRejectsNewMembersOfSets", []step{alsoA[store.Set](add("s", forever, roomy, "a"),
		fill(forever, func(int) []step {
			return []step{func(r *run) {
				for i := 0; ; i++ {
					err := r.set().Add(background, "s", fmt.Sprint("b", i, kilobytes), forever, roomy)
					if errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrConflict) {
						return
					}
					if err != nil || i == 10_000 {
						r.Fatalf("Add of member %d: %v, want ErrFull", i, err)
					}
				}
			}, list("s", "", 1, "a"), take("s", "a")}
		}))}},
}
