package store

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/storecheck"
)

// streamOverhead approximates the memory of a stream in addition to its entries, and of a group in
// addition to its streams.
const streamOverhead = 320

// memoryLog is the [Log] of a memory.
//
// Invariants: each group has at least one stream, and each stream at least one entry. Groups are in the
// order of their latest Append.
type memoryLog struct {
	mu     sync.Mutex
	max    int64
	bytes  int64
	groups map[string]*logGroup
	order  list.List // of *logGroup, the one with the least recent Append first
}

// logGroup is a group. Its entries are copied into blocks, so that a busy session does not have an object
// for each of them.
type logGroup struct {
	name    string
	streams map[string]logStream
	entries []logEntry // in the order of their Append; the first one is not purged
	removed int        // entries that were purged and are not in entries anymore
	block   []byte     // the last block
	size    int64      // of entries, overhead included
	bytes   int64      // of those that are not purged
	expires int64
	element *list.Element // of memoryLog.order
}

// logEntry is an entry, or what remains of it in the middle of a group after it was purged: no stream, but data.
type logEntry struct {
	stream string
	data   []byte
}

// logStream has the number of entries of a stream and the number of the last one. The oldest is at a
// position of at least from in the group, counted with those that were removed.
type logStream struct {
	n    int
	last uint64
	from int
}

func (s logStream) first() uint64 { return s.last + 1 - uint64(s.n) }

// costOf returns the number of bytes that an entry counts.
func costOf(entry []byte) int64 { return int64(len(entry)) + storecheck.LogOverhead }

// overheadOf returns the number of bytes that a group or a stream counts in addition to its contents.
func overheadOf(name string) int64 { return int64(len(name)) + streamOverhead }

// Append implements [Log]. When the log exceeds its limit, Append purges the oldest entries of the
// group with the least recent Append.
func (m *memory) Append(ctx context.Context, key StreamKey, seq uint64, entry []byte, opt AppendOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := storecheck.Append(key.Group, key.Stream, seq, entry, opt.TTL, opt.MaxEntries, opt.MaxBytes); err != nil {
		return err
	}
	l := &m.log
	if need := costOf(entry) + overheadOf(key.Group) + overheadOf(key.Stream); need > l.max {
		return fmt.Errorf("%w: entry is too large for the log: %d bytes with overhead, the limit is %d", ErrFull, need,
			l.max)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	now := m.clock()
	for front := l.order.Front(); front != nil && front.Value.(*logGroup).expires <= now; front = l.order.Front() {
		l.drop(front.Value.(*logGroup))
	}
	g := l.find(key.Group, now)
	if g == nil {
		g = l.add(key.Group)
	}
	s, ok := g.streams[key.Stream]
	if ok && seq != s.last+1 {
		return fmt.Errorf("%w: entry %d cannot follow entry %d", ErrConflict, seq, s.last)
	}
	if !ok {
		s.from = g.removed + len(g.entries)
		l.bytes += overheadOf(key.Stream)
	}
	s.n, s.last = s.n+1, seq
	g.streams[key.Stream] = s
	g.entries = append(g.entries, logEntry{key.Stream, g.copy(entry)})
	g.expires = max(g.expires, after(now, opt.TTL))
	l.order.MoveToBack(g.element)
	g.size += costOf(entry)
	g.bytes += costOf(entry)
	l.bytes += costOf(entry)
	for range s.n - opt.MaxEntries {
		l.purge(g, key.Stream)
	}
	for g.bytes > opt.MaxBytes {
		l.purge(g, g.entries[0].stream)
	}
	for l.bytes > l.max {
		oldest := l.order.Front().Value.(*logGroup)
		l.purge(oldest, oldest.entries[0].stream)
	}
	return nil
}

// ReadAfter implements [Log].
func (m *memory) ReadAfter(ctx context.Context, key StreamKey, seq uint64) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &m.log
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.find(key.Group, m.clock())
	if g == nil {
		return nil, ErrNotFound
	}
	s, ok := g.streams[key.Stream]
	if !ok || seq > s.last {
		return nil, ErrNotFound
	}
	if seq+1 < s.first() {
		return nil, fmt.Errorf("%w: the oldest remaining entry is %d", ErrPurged, s.first())
	}
	entries := make([][]byte, s.last-seq)
	for at, left := len(g.entries)-1, len(entries); left > 0; at-- { // most readers want the last ones
		if e := g.entries[at]; e.stream == key.Stream {
			left--
			entries[left] = e.data
		}
	}
	return entries, nil
}

// Drop implements [Log].
func (m *memory) Drop(ctx context.Context, group string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l := &m.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.groups[group]; g != nil {
		l.drop(g)
	}
	return nil
}

// The methods of memoryLog require that mu is held.

// find returns the group, or nil if there is none. It drops an expired group.
func (l *memoryLog) find(group string, now int64) *logGroup {
	g := l.groups[group]
	if g != nil && g.expires <= now {
		l.drop(g)
		return nil
	}
	return g
}

// add adds an empty group. The caller must add an entry.
func (l *memoryLog) add(group string) *logGroup {
	g := &logGroup{name: group, streams: make(map[string]logStream, 1)}
	if l.groups == nil {
		l.groups = make(map[string]*logGroup)
	}
	l.groups[group] = g
	l.bytes += overheadOf(group)
	g.element = l.order.PushBack(g)
	return g
}

// Sizes of blocks, in bytes. Most blocks have a quarter of the size of the entries that the group has
// already, so that a group with few entries is small.
const (
	minBlock = 512
	maxBlock = 32 << 10
)

// copy copies an entry into a block.
func (g *logGroup) copy(entry []byte) []byte {
	if len(entry) > maxBlock/4 { // so that little remains unused at the end of blocks
		return slices.Clone(entry)
	}
	if cap(g.block)-len(g.block) < len(entry) {
		g.block = make([]byte, 0, max(len(entry), min(max(int(g.bytes)/4, minBlock), maxBlock)))
	}
	begin := len(g.block)
	g.block = append(g.block, entry...)
	return g.block[begin:len(g.block):len(g.block)]
}

// purge removes the oldest entry of a stream. It also removes the stream and the group when they become
// empty.
func (l *memoryLog) purge(g *logGroup, stream string) {
	s := g.streams[stream]
	at := max(s.from-g.removed, 0)
	for g.entries[at].stream != stream {
		at++
	}
	cost := costOf(g.entries[at].data)
	g.bytes -= cost
	l.bytes -= cost
	g.entries[at].stream = ""
	s.n, s.from = s.n-1, g.removed+at+1
	for len(g.entries) > 0 && g.entries[0].stream == "" {
		g.size -= costOf(g.entries[0].data)
		g.entries[0].data = nil
		g.entries = g.entries[1:]
		g.removed++
	}
	if g.streams[stream] = s; s.n == 0 {
		l.bytes -= overheadOf(stream)
		delete(g.streams, stream)
	}
	if len(g.streams) == 0 {
		l.drop(g)
	} else if g.size > 2*g.bytes+4*minBlock {
		g.compact()
	}
}

// compact copies the entries to new blocks, without those that were purged: a silent stream must not keep
// the purged entries of a busy one in memory.
func (g *logGroup) compact() {
	g.entries = slices.DeleteFunc(g.entries, func(e logEntry) bool { return e.stream == "" })
	g.block, g.size, g.removed = nil, g.bytes, 0
	for i, e := range g.entries {
		g.entries[i].data = g.copy(e.data)
	}
	for name, s := range g.streams {
		s.from = 0
		g.streams[name] = s
	}
}

// drop removes a group and its streams.
func (l *memoryLog) drop(g *logGroup) {
	l.bytes -= g.bytes + overheadOf(g.name)
	for name := range g.streams {
		l.bytes -= overheadOf(name)
	}
	l.order.Remove(g.element)
	delete(l.groups, g.name)
}
