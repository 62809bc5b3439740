package store

import (
	"container/list"
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/parley-mcp/parley/internal/storecheck"
)

// streamOverhead approximates the memory of a stream in addition to its entries, and of a group in
// addition to its streams.
const streamOverhead = 320

// memoryLog is the [Log] of a memory.
//
// Invariants: each group has at least one stream, and each stream at least one entry. Groups are
// ordered by their latest Append.
type memoryLog struct {
	mu     sync.Mutex
	max    int64
	bytes  int64
	groups map[string]*logGroup
	order  list.List // elements are *logGroup; the group with the least recent Append comes first
}

// logGroup is a group. Entries refer by number to their stream and to a block with their data, so that the garbage
// collector need not scan the tens of thousands of entries of a busy session.
type logGroup struct {
	name    string
	numbers map[string]uint32 // numbers of the streams, by name
	streams []logStream       // streams, by number
	unused  []uint32          // unused numbers
	entries []logEntry        // in the order in which they were appended
	first   int               // index of the oldest entry that is not purged
	removed int               // number of purged entries that are no longer in entries
	blocks  [][]byte          // from the block with the oldest entry on
	freed   uint32            // number of earlier blocks
	size    int64             // size of the entries from first on, including overhead
	bytes   int64             // bytes of the entries that are not purged
	expires int64
	element *list.Element // position in memoryLog.order
}

// logEntry is an entry, or the remainder of a purged entry in the middle of a group.
type logEntry struct {
	stream     uint32 // number of the stream, or purged
	block      uint32 // index of the block, counting freed blocks
	begin, end uint32 // position in the block
}

// purged is the stream of a purged entry.
const purged = math.MaxUint32

func (e logEntry) cost() int64 { return int64(e.end-e.begin) + storecheck.LogOverhead }

// logStream contains the number of entries of a stream and the number of the last one. The oldest entry
// is at position from of the group or later, counting removed entries.
type logStream struct {
	name string
	n    int
	last uint64
	from int
}

func (s logStream) first() uint64 { return s.last + 1 - uint64(s.n) }

// costOf returns how many bytes an entry counts.
func costOf(entry []byte) int64 { return int64(len(entry)) + storecheck.LogOverhead }

// overheadOf returns how many bytes a group or a stream counts in addition to its contents.
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
	number, ok := g.numbers[key.Stream]
	if ok && seq != g.streams[number].last+1 {
		return fmt.Errorf("%w: entry %d cannot follow entry %d", ErrConflict, seq, g.streams[number].last)
	}
	if !ok {
		number = g.addStream(key.Stream)
		l.bytes += overheadOf(key.Stream)
	}
	s := &g.streams[number]
	s.n, s.last = s.n+1, seq
	g.push(number, entry)
	g.expires = max(g.expires, after(now, opt.TTL))
	l.order.MoveToBack(g.element)
	g.size += costOf(entry)
	g.bytes += costOf(entry)
	l.bytes += costOf(entry)
	for range s.n - opt.MaxEntries {
		l.purge(g, number)
	}
	for g.bytes > opt.MaxBytes {
		l.purge(g, g.entries[g.first].stream)
	}
	for l.bytes > l.max {
		oldest := l.order.Front().Value.(*logGroup)
		l.purge(oldest, oldest.entries[oldest.first].stream)
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
	number, ok := g.numbers[key.Stream]
	if !ok || seq > g.streams[number].last {
		return nil, ErrNotFound
	}
	s := g.streams[number]
	if seq+1 < s.first() {
		return nil, fmt.Errorf("%w: the oldest remaining entry is %d", ErrPurged, s.first())
	}
	entries := make([][]byte, s.last-seq)
	for at, left := len(g.entries)-1, len(entries); left > 0; at-- { // most readers want the newest entries
		if e := g.entries[at]; e.stream == number {
			left--
			entries[left] = g.data(e)
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

// mu must be held when a method of memoryLog is called.

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
	g := &logGroup{name: group, numbers: make(map[string]uint32, 1)}
	if l.groups == nil {
		l.groups = make(map[string]*logGroup)
	}
	l.groups[group] = g
	l.bytes += overheadOf(group)
	g.element = l.order.PushBack(g)
	return g
}

// addStream adds an empty stream and returns its number. The caller must add an entry.
func (g *logGroup) addStream(name string) (number uint32) {
	if last := len(g.unused) - 1; last >= 0 {
		number, g.unused = g.unused[last], g.unused[:last]
	} else {
		number = uint32(len(g.streams))
		g.streams = append(g.streams, logStream{})
	}
	g.numbers[name] = number
	g.streams[number] = logStream{name: name, from: g.removed + len(g.entries)}
	return number
}

// removeStream removes a stream without entries.
func (g *logGroup) removeStream(number uint32) {
	delete(g.numbers, g.streams[number].name)
	g.streams[number] = logStream{}
	g.unused = append(g.unused, number)
}

// Sizes of blocks, in bytes. Most blocks are a quarter as large as the entries that the group already
// has, so that a group with few entries stays small.
const (
	minBlock = 512
	maxBlock = 32 << 10
)

// push adds an entry. It copies the data into the last block. Long data gets a separate block, so that little
// space is wasted at the end of the other blocks; the rest of the previous block then becomes the last block.
func (g *logGroup) push(stream uint32, data []byte) {
	at := len(g.blocks) - 1
	var room []byte
	if at >= 0 {
		room = g.blocks[at][len(g.blocks[at]):]
	}
	if len(data) > maxBlock/4 {
		g.blocks = append(g.blocks, make([]byte, 0, len(data)), room)
		at++
	} else if at < 0 || cap(room) < len(data) {
		g.blocks = append(g.blocks, make([]byte, 0, min(max(len(data), int(g.bytes)/4, minBlock), maxBlock)))
		at++
	}
	if n := len(g.entries); n == cap(g.entries) && g.first > n/2 { // move the entries down instead of growing
		g.entries = append(g.entries[:0], g.entries[g.first:]...)
		g.removed, g.first = g.removed+g.first, 0
	}
	begin := len(g.blocks[at])
	end := begin + len(data)
	g.blocks[at] = append(g.blocks[at], data...)
	g.entries = append(g.entries, logEntry{stream, g.freed + uint32(at), uint32(begin), uint32(end)})
}

// data returns the data of an entry. It never changes.
func (g *logGroup) data(e logEntry) []byte { return g.blocks[e.block-g.freed][e.begin:e.end:e.end] }

// purge removes the oldest entry of a stream. It also removes the stream and the group when they become
// empty.
func (l *memoryLog) purge(g *logGroup, number uint32) {
	s := &g.streams[number]
	at := max(s.from-g.removed, g.first)
	for g.entries[at].stream != number {
		at++
	}
	cost := g.entries[at].cost()
	g.bytes -= cost
	l.bytes -= cost
	g.entries[at].stream = purged
	s.n, s.from = s.n-1, g.removed+at+1
	if s.n == 0 {
		l.bytes -= overheadOf(s.name)
		g.removeStream(number)
	}
	if len(g.numbers) == 0 {
		l.drop(g)
		return
	}
	for g.entries[g.first].stream == purged {
		g.size -= g.entries[g.first].cost()
		g.first++
	}
	free := g.entries[g.first].block - g.freed
	clear(g.blocks[:free])
	g.blocks, g.freed = g.blocks[free:], g.freed+free
	if g.size > 2*g.bytes+4*minBlock {
		g.compact()
	}
}

// compact copies the entries that are not purged to new blocks: a silent stream must not keep the purged
// entries of a busy stream in memory.
func (g *logGroup) compact() {
	old := *g
	g.entries, g.first, g.removed, g.blocks, g.freed, g.size = nil, 0, 0, nil, 0, g.bytes
	for _, e := range old.entries[old.first:] {
		if e.stream != purged {
			g.push(e.stream, old.data(e))
		}
	}
	for i := range g.streams {
		g.streams[i].from = 0
	}
}

// drop removes a group and its streams.
func (l *memoryLog) drop(g *logGroup) {
	l.bytes -= g.bytes + overheadOf(g.name)
	for name := range g.numbers {
		l.bytes -= overheadOf(name)
	}
	l.order.Remove(g.element)
	delete(l.groups, g.name)
}
