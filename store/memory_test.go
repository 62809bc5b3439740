package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// entryOverhead is how many bytes an item, a member and a set each count in addition to their contents.
const entryOverhead = 160

// clock is a clock that only Advance moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// clocked is a Memory with a clock that the test advances. It implements storetest.Clock.
type clocked struct {
	store.Store
	*clock
}

func open() clocked { return openLimited(0) }

// openLimited returns a store whose KV is limited to a number of bytes.
func openLimited(bytes int64) clocked {
	c := newClock()
	return clocked{store.NewLimitedMemory(bytes, 0, c.Now), c}
}

func TestMemoryImplementsKV(t *testing.T) {
	storetest.RunKV(t, func(*testing.T) store.KV { return open() })
}

func TestMemoryImplementsSet(t *testing.T) {
	storetest.RunSet(t, func(*testing.T) store.Set { return open() })
}

func TestMemoryImplementsLog(t *testing.T) {
	storetest.RunLog(t, func(*testing.T) store.Log { return open() })
}

func TestMemoryImplementsBus(t *testing.T) {
	storetest.RunBus(t, func(*testing.T) store.Bus { return open() })
}

func TestFullMemoryImplementsKV(t *testing.T) {
	storetest.RunKVFull(t, func(*testing.T) store.KV { return openLimited(40_000) })
}

func put(t testing.TB, m store.KV, key string, ttl time.Duration) {
	t.Helper()
	must.Get(m.Put(ctx, key, []byte("value"), store.PutOptions{TTL: ttl}))(t)
}

func TestMemoryExpiryIsExactToTheNanosecond(t *testing.T) {
	m := open()
	put(t, m, "k", time.Second)
	m.Advance(time.Second - 1)
	must.Get(m.Get(ctx, "k"))(t)
	m.Advance(1)
	must.Is(t, must.Err(m.Get(ctx, "k")), store.ErrNotFound, "Get at expiry")
}

func TestMemoryUsesRealClockByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := store.NewMemory()
		put(t, m, "k", time.Hour)
		time.Sleep(time.Hour - 1)
		must.Get(m.Get(ctx, "k"))(t)
		time.Sleep(time.Nanosecond)
		must.Is(t, must.Err(m.Get(ctx, "k")), store.ErrNotFound)
	})
}

func TestMemoryLimitsAreExact(t *testing.T) {
	const size = 1000 + 4 + entryOverhead // includes the value and the key
	m := openLimited(2 * size)
	for i := range 2 {
		must.Do(t, must.Err(m.Put(ctx, fmt.Sprint("key", i), make([]byte, 1000), store.PutOptions{TTL: time.Hour})))
	}
	must.Is(t, must.Err(m.Put(ctx, "key1", make([]byte, 1001), store.PutOptions{TTL: time.Hour})), store.ErrFull,
		"Put of one byte over the limit")
}

func TestFullMemoryReusesSpaceOfExpiredItems(t *testing.T) {
	for name, expireA := range map[string]func(m clocked){
		"Put shortens a": func(m clocked) { put(t, m, "a", time.Second); m.Advance(2 * time.Second) },
		"Touch extends b": func(m clocked) {
			must.Get(m.Touch(ctx, "b", 3*time.Hour))(t)
			m.Advance(2 * time.Hour)
		},
	} {
		m := openLimited(2 * (1 + 5 + entryOverhead)) // for the key and the value of put
		put(t, m, "a", time.Hour)
		put(t, m, "b", time.Hour)
		expireA(m)
		put(t, m, "c", time.Hour)
		for key, want := range map[string]error{"a": store.ErrNotFound, "b": nil, "c": nil} {
			must.CheckIs(t, must.Err(m.Get(ctx, key)), want, name, key)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestMemoryReleasesExpiredItems(t *testing.T) {
	m := open()
	before := heap()
	const n = 50_000
	for i := range n {
		put(t, m, fmt.Sprint("session/", i), time.Minute)
	}
	grown := heap() - before
	must.CheckThat(t, grown <= n*400, "%d entries use %d bytes each, want at most 400", n, grown/n)
	m.Advance(time.Hour)
	for i := range n { // each write removes at most two expired items
		put(t, m, "again", time.Minute)
		if i%1000 == 0 {
			m.Advance(time.Second)
		}
	}
	after := heap()
	runtime.KeepAlive(m)
	must.That(t, after <= before+256<<10, "the heap has %d bytes after all items expired, and had %d bytes before",
		after, before)
}

func TestMemoryGetAndTouchDoNotAllocate(t *testing.T) {
	m := store.NewMemory()
	put(t, m, "k", time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	must.CheckEqual(t, testing.AllocsPerRun(100, func() { must.Get(m.Get(ctx, "k"))(t) }), 0, "Get allocates")
	must.CheckEqual(t, testing.AllocsPerRun(100, func() {
		must.Get(m.Touch(ctx, "k", 2*time.Hour))(t)
	}), 0, "Touch allocates")
}

// The test compares Memory with a simple model under random sequences of operations. The heap, the lazy
// expiry and the accounting of Memory must not be observable.
func TestMemoryKVMatchesModel(t *testing.T) {
	for seed := range uint64(100) {
		compareKV(t, rand.New(rand.NewPCG(seed, 1)).IntN, 100)
		must.That(t, !t.Failed(), "seed %d", seed)
	}
}

// kvItem is an item of the model.
type kvItem struct {
	value   string
	version uint64
	until   time.Time
}

// compareKV runs one sequence of operations on a Memory and on the model. choose returns a number below n.
func compareKV(t *testing.T, choose func(n int) int, operations int) {
	t.Helper()
	const maxBytes = 4 * (entryOverhead + 6)
	keys := []string{"a", "b", "c", "d", "e", "f"}
	m := openLimited(maxBytes)
	model := make(map[string]kvItem)
	live := func(k string) (kvItem, bool) {
		item, ok := model[k]
		return item, ok && item.until.After(m.Now())
	}
	for range operations {
		k, d := keys[choose(len(keys))], time.Duration(1+choose(10))*time.Second
		old, ok := live(k)
		switch choose(5) {
		case 0:
			m.Advance(d)
		case 1:
			must.Do(t, m.Delete(ctx, k))
			delete(model, k)
		case 2:
			_, err := m.Touch(ctx, k, d)
			must.That(t, ok == (err == nil), "Touch(%s): %v, but live is %v", k, err, ok)
			if until := m.Now().Add(d); ok && until.After(old.until) {
				old.until = until
				model[k] = old
			}
		default:
			value := strings.Repeat("v", choose(8)) + strconv.Itoa(choose(100))
			opt := store.PutOptions{TTL: d}
			conflict := false
			switch choose(3) {
			case 1:
				opt.IfAbsent, conflict = true, ok
			case 2:
				opt.IfVersion = old.version + uint64(choose(2))
				conflict = opt.IfVersion != 0 && (!ok || opt.IfVersion != old.version)
			}
			size := entryOverhead + len(k) + len(value)
			for other := range model {
				if item, ok := live(other); ok && other != k {
					size += entryOverhead + len(other) + len(item.value)
				}
			}
			want := error(nil)
			if conflict {
				want = store.ErrConflict
			} else if size > maxBytes {
				want = store.ErrFull
			}
			version, err := m.Put(ctx, k, []byte(value), opt)
			must.Is(t, err, want, k, opt)
			if err == nil {
				model[k] = kvItem{value, version, m.Now().Add(d)}
			}
		}
		for _, k := range keys {
			want, ok := live(k)
			got, err := m.Get(ctx, k)
			if ok != (err == nil) || string(got.Value) != want.value && ok || got.Version != want.version && ok {
				t.Fatalf("Get(%s) = %q %d, %v; the model has %+v, %v", k, got.Value, got.Version, err, want, ok)
			}
		}
	}
}

// FuzzStore reads a sequence of operations from bytes, runs it on a Memory as a KV and as a Log, and compares the
// results with the models.
func FuzzStore(f *testing.F) {
	for seed := range uint64(4) {
		var operations []byte
		for r := rand.New(rand.NewPCG(seed, 2)); len(operations) < 1000; {
			operations = binary.LittleEndian.AppendUint64(operations, r.Uint64())
		}
		f.Add(operations)
	}
	f.Fuzz(func(t *testing.T, operations []byte) {
		for _, compare := range []func(*testing.T, func(int) int, int){compareKV, compareLog} {
			left := operations
			compare(t, func(n int) int {
				if len(left) < 2 {
					return 0
				}
				choice := binary.LittleEndian.Uint16(left)
				left = left[2:]
				return int(choice) % n
			}, min(len(operations)/12, 300))
		}
	})
}

func BenchmarkMemory(b *testing.B) {
	m := store.NewMemory()
	keys := make([]string, 10_000)
	value := []byte(strings.Repeat("v", 512))
	for i := range keys {
		keys[i] = fmt.Sprint("user/https%3A%2F%2Fas.example/ada//session/", i)
		put(b, m, keys[i], time.Hour)
	}
	run := func(name string, f func(key string) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := f(keys[rand.IntN(len(keys))]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	run("Get", func(key string) error { _, err := m.Get(ctx, key); return err })
	run("Touch", func(key string) error { _, err := m.Touch(ctx, key, time.Hour); return err })
	run("Put", func(key string) error {
		_, err := m.Put(ctx, key, value, store.PutOptions{TTL: time.Hour})
		return err
	})
}

func TestFullLogPurgesLeastRecentGroup(t *testing.T) {
	const entry = 10_000
	m := store.NewLimitedMemory(0, 5*(entry+storecheck.LogOverhead+1000), time.Now)
	opt := store.AppendOptions{TTL: time.Hour, MaxEntries: 100, MaxBytes: 1 << 20}
	put := func(group string, seq uint64) {
		t.Helper()
		must.Do(t, m.Append(ctx, store.StreamKey{Group: group, Stream: "s"}, seq, make([]byte, entry), opt))
	}
	wantCount := func(group string, after uint64, want int, wantErr error) {
		t.Helper()
		got, err := m.ReadAfter(ctx, store.StreamKey{Group: group, Stream: "s"}, after)
		must.CheckEqual(t, len(got), want, group, after)
		must.CheckIs(t, err, wantErr, group, after)
	}
	put("a", 1)
	put("b", 1)
	put("a", 2)
	put("b", 2)
	put("a", 3)
	wantCount("b", 0, 2, nil)
	put("a", 4) // exceeds the limit; b was appended to least recently
	wantCount("b", 0, 0, store.ErrPurged)
	wantCount("b", 1, 1, nil)
	put("a", 5)
	wantCount("b", 1, 0, store.ErrNotFound)
	wantCount("a", 0, 5, nil)
	must.CheckIs(t, m.Append(ctx, store.StreamKey{Group: "c", Stream: "s"}, 1, make([]byte, 6*entry), opt),
		store.ErrFull, "Append of an entry larger than the log")
	wantCount("a", 0, 5, nil)
}

func TestRemovedEntriesOfALogDoNotStayInMemory(t *testing.T) {
	const groups, entries, short, long = 5, 100, 100, 9000
	for _, test := range []struct {
		name   string
		stream func(i int) string
		size   func(i int) int
		most   int // maximum number of bytes that the entries of a group count
	}{
		{"one stream", func(int) string { return "s" }, func(int) int { return short }, entries / 2 * short},
		{"a silent stream beside a busy one", func(i int) string { return []string{"busy", "silent"}[min(1, i%200/199)] },
			func(int) int { return short }, entries * short},
		{"many streams", func(i int) string { return fmt.Sprint(i) }, func(int) int { return short }, entries * short},
		{"long entries beside short ones", func(int) string { return "s" }, func(i int) int { return max(short, i%2*long) },
			entries / 4 * (short + long)},
	} {
		m := store.NewMemory()
		opt := store.AppendOptions{TTL: time.Hour, MaxEntries: entries / 2, MaxBytes: int64(test.most + entries*128)}
		before := heap()
		for g := range groups {
			last := make(map[string]uint64)
			for i := range 100 * entries {
				stream := test.stream(i)
				last[stream]++
				must.Do(t, m.Append(ctx, store.StreamKey{Group: fmt.Sprint(g), Stream: stream}, last[stream],
					make([]byte, test.size(i)), opt))
			}
		}
		after, most := heap(), before+2*groups*uint64(opt.MaxBytes)
		runtime.KeepAlive(m)
		must.CheckThat(t, after <= most, "%s: the log needs %d bytes for %d groups of %d bytes", test.name,
			after-before, groups, opt.MaxBytes)
	}
}

// A busy session appends tens of thousands of entries, each of which would be an object for the garbage collector.
func TestMemoryAppendHardlyAllocates(t *testing.T) {
	m := store.NewMemory()
	opt := store.AppendOptions{TTL: time.Hour, MaxEntries: 10, MaxBytes: 100 << 10}
	names := make([]string, 1000) // each stream is purged before its name is used again
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	entry, next := make([]byte, 100), 0
	add := func() {
		next++
		must.Do(t, m.Append(ctx, store.StreamKey{Group: "group", Stream: names[next%len(names)]}, 1, entry, opt))
	}
	for range 2 * len(names) {
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n > 0 {
		t.Errorf("an Append allocates %v times, want less than once", n)
	}
}

// model is a simple Log that the test compares Memory with.
type model struct {
	entries []modelEntry
	last    map[store.StreamKey]uint64
}

type modelEntry struct {
	key  store.StreamKey
	seq  uint64
	size int
}

// purge deletes the oldest matching entries until over returns false.
func (m *model) purge(over func() bool, match func(modelEntry) bool) {
	for over() {
		m.entries = slices.Delete(m.entries, slices.IndexFunc(m.entries, match), slices.IndexFunc(m.entries, match)+1)
	}
}

// size returns the number and the bytes of the entries that match.
func (m *model) size(match func(modelEntry) bool) (n int, bytes int64) {
	for _, e := range m.entries {
		if match(e) {
			n++
			bytes += int64(e.size) + storecheck.LogOverhead
		}
	}
	return n, bytes
}

func TestMemoryLogMatchesModel(t *testing.T) {
	for seed := range uint64(50) {
		compareLog(t, rand.New(rand.NewPCG(seed, 1)).IntN, 300)
		must.That(t, !t.Failed(), "seed %d", seed)
	}
}

// compareLog runs one sequence of operations on a Memory and on the model. choose returns a number below n.
func compareLog(t *testing.T, choose func(n int) int, operations int) {
	t.Helper()
	opt := store.AppendOptions{TTL: time.Hour, MaxEntries: 6, MaxBytes: 3000}
	sizes := []int{700}
	if choose(2) == 1 { // some entries are empty, and some are too long to share a block
		opt.MaxBytes, sizes = 30_000, []int{1, 300, 700, 10_000}
	}
	data := func(key store.StreamKey, seq uint64, size int) []byte {
		return bytes.Repeat([]byte{byte(3*seq) + key.Stream[1]}, size)
	}
	m := store.NewMemory()
	want := model{last: make(map[store.StreamKey]uint64)}
	for range operations {
		key := store.StreamKey{Group: fmt.Sprint("g", choose(2)), Stream: fmt.Sprint("s", choose(3))}
		if choose(60) == 0 {
			_ = m.Drop(ctx, key.Group)
			want.entries = slices.DeleteFunc(want.entries, func(e modelEntry) bool { return e.key.Group == key.Group })
		}
		want.last[key]++
		seq, size := want.last[key], choose(sizes[choose(len(sizes))])
		must.Do(t, m.Append(ctx, key, seq, data(key, seq, size), opt))
		want.entries = append(want.entries, modelEntry{key, seq, size})
		sameStream := func(e modelEntry) bool { return e.key == key }
		sameGroup := func(e modelEntry) bool { return e.key.Group == key.Group }
		want.purge(func() bool { n, _ := want.size(sameStream); return n > opt.MaxEntries }, sameStream)
		want.purge(func() bool { _, b := want.size(sameGroup); return b > opt.MaxBytes }, sameGroup)

		read := store.StreamKey{Group: fmt.Sprint("g", choose(2)), Stream: fmt.Sprint("s", choose(3))}
		var kept []modelEntry
		for _, e := range want.entries {
			if e.key == read {
				kept = append(kept, e)
			}
		}
		after := want.last[read] - uint64(len(kept))
		if len(kept) == 0 {
			must.Is(t, must.Err(m.ReadAfter(ctx, read, 0)), store.ErrNotFound, read, "which has no entries")
			continue
		}
		got := must.Get(m.ReadAfter(ctx, read, after))(t)
		must.Equal(t, len(got), len(kept), read)
		for i, e := range kept {
			must.That(t, bytes.Equal(got[i], data(read, e.seq, e.size)),
				"entry %d of %v is %d bytes %.10x", e.seq, read, len(got[i]), got[i])
		}
		if after > 0 {
			must.Is(t, must.Err(m.ReadAfter(ctx, read, after-1)), store.ErrPurged, read, "which is purged")
		}
	}
}

// The test compares the sets of a Memory with a simple model under random sequences of operations. Sets
// and items share the limits.
func TestMemorySetsMatchModel(t *testing.T) {
	for seed := range uint64(200) {
		compareSets(t, rand.New(rand.NewPCG(seed, 3)), 200)
		must.That(t, !t.Failed(), "seed %d", seed)
	}
}

func compareSets(t *testing.T, r *rand.Rand, operations int) {
	t.Helper()
	const maxBytes, maxMembers = 8 * (entryOverhead + 1), 3
	m := openLimited(maxBytes)
	model := make(map[[2]string]time.Time) // the set, or "" for items, and the member
	// count returns the number of members of a set, and whether another item or member fits.
	count := func(set string) (inSet int, fits bool) {
		sets := map[string]int{set: entryOverhead + len(set)}
		bytes := entryOverhead + 1
		for k, until := range model {
			if until.After(m.Now()) {
				bytes += entryOverhead + 1
				sets[k[0]] = entryOverhead + len(k[0])
				if k[0] == set {
					inSet++
				}
			}
		}
		delete(sets, "")
		for _, size := range sets {
			bytes += size
		}
		return inSet, bytes <= maxBytes
	}
	for range operations {
		set, member, ttl := fmt.Sprint("s", r.IntN(3)), string(rune('a'+r.IntN(5))),
			time.Duration(1+r.IntN(10))*time.Second
		at := [2]string{set, member}
		live := model[at].After(m.Now())
		switch r.IntN(6) {
		case 0:
			m.Advance(ttl)
		case 1:
			must.Do(t, m.Remove(ctx, set, member))
			delete(model, at)
		case 2:
			_, fits := count("")
			item := [2]string{"", member}
			_, err := m.Put(ctx, member, nil, store.PutOptions{TTL: ttl})
			must.Equal(t, !fits && !model[item].After(m.Now()), errors.Is(err, store.ErrFull), fits, err)
			if err == nil {
				model[item] = m.Now().Add(ttl)
			}
		default:
			inSet, fits := count(set)
			err := m.Add(ctx, set, member, ttl, maxMembers)
			must.Equal(t, !live && (inSet >= maxMembers || !fits), errors.Is(err, store.ErrFull), inSet, fits, err)
			if until := m.Now().Add(ttl); err == nil && (!live || until.After(model[at])) {
				model[at] = until
			}
		}
		var want []string
		for k, until := range model {
			if k[0] == set && until.After(m.Now()) {
				want = append(want, k[1])
			}
		}
		slices.Sort(want)
		got := must.Get(m.List(ctx, set, "", storecheck.MaxList))(t)
		must.That(t, slices.Equal(got, want), "List(%s) = %q, ; the model has %q", set, got, want)
	}
}

// The limit in bytes counts members and sets exactly, whatever was added and removed before.
func TestMemoryCountsBytesOfSets(t *testing.T) {
	const member, set = entryOverhead + 1, entryOverhead + 2 // includes the name
	m := openLimited(2*set + 3*member)
	add := func(set, member string) error { return m.Add(ctx, set, member, time.Minute, 100) }
	for range 10 {
		for _, at := range [][2]string{{"s1", "a"}, {"s1", "b"}, {"s2", "a"}} {
			must.Do(t, add(at[0], at[1]))
		}
		must.Is(t, add("s2", "b"), store.ErrFull)
		must.Do(t, errors.Join(m.Remove(ctx, "s1", "a"), m.Remove(ctx, "s1", "b")))
		m.Advance(time.Hour) // the other set expires
	}
}
