package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/parley-mcp/parley/internal/storecheck"
)

// streamOverhead approximates the memory of a stream in addition to its entries, and of a group in
// addition to its streams.
const streamOverhead = 320

// memoryLog is the [Log] of a memory.
//
// Invariants: each group has at least one stream, and each stream at least one entry. The entries of a
// group are in the order of their Append, so the oldest entry of a group is also the oldest of its
// stream. Groups are linked in the order of their latest Append.
type memoryLog struct {
	mu     sync.Mutex
	max    int64
	bytes  int64
	groups map[string]*logGroup
	oldest *logGroup // the group with the least recent Append
	newest *logGroup
}

type logGroup struct {
	name       string
	numbers    map[string]uint32 // of streams, by name
	streams    []logStream       // by number
	unused     []uint32          // numbers without a stream
	entries    recordQueue
	bytes      int64 // of its entries, overhead included
	expires    int64
	prev, next *logGroup
}

type logStream struct {
	name           string
	oldest, newest position
	n              int
	last           uint64 // number of the newest entry
}

// costOf returns the number of bytes that an entry counts.
func costOf(entry []byte) int64 { return int64(len(entry)) + storecheck.LogOverhead }

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
	if need := costOf(entry) + overheadOf(key); need > l.max {
		return fmt.Errorf("%w: entry is too large for the log: %d bytes with overhead, the limit is %d", ErrFull, need,
			l.max)
	}
	record := newRecord(entry)

	l.mu.Lock()
	defer l.mu.Unlock()
	now := m.clock()
	for l.oldest != nil && l.oldest.expires <= now {
		l.drop(l.oldest)
	}
	g := l.find(key.Group, now)
	if g == nil {
		g = l.add(key.Group)
	}
	number, ok := g.numbers[key.Stream]
	if !ok {
		number = g.addStream(key.Stream)
		l.bytes += int64(len(key.Stream)) + streamOverhead
	} else if last := g.streams[number].last; seq != last+1 {
		return fmt.Errorf("%w: entry %d cannot follow entry %d", ErrConflict, seq, last)
	}
	g.expires = max(g.expires, after(now, opt.TTL))
	l.touch(g)
	g.push(number, entry, record)
	g.bytes += costOf(entry)
	l.bytes += costOf(entry)
	s := &g.streams[number]
	s.last = seq
	for s.n > opt.MaxEntries {
		l.purge(g, s.oldest)
	}
	for g.bytes > opt.MaxBytes {
		l.purge(g, g.entries.oldest())
	}
	for l.bytes > l.max {
		l.purge(l.oldest, l.oldest.entries.oldest())
	}
	return nil
}

// overheadOf returns the overhead of a new group with one stream.
func overheadOf(key StreamKey) int64 {
	return int64(len(key.Group)) + int64(len(key.Stream)) + 2*streamOverhead
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
	s := &g.streams[number]
	p, at := s.oldest, s.last-uint64(s.n)+1
	if seq+1 < at {
		return nil, fmt.Errorf("%w: the oldest remaining entry is %d", ErrPurged, at)
	}
	entries := make([][]byte, 0, s.last-seq)
	for ; p != 0; p, at = g.entries.following(p), at+1 {
		if at > seq {
			entries = append(entries, g.entries.entry(p))
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
	g := &logGroup{name: group, numbers: make(map[string]uint32, 1)}
	if l.groups == nil {
		l.groups = make(map[string]*logGroup)
	}
	l.groups[group] = g
	l.bytes += int64(len(group)) + streamOverhead
	l.link(g)
	return g
}

// touch makes g the newest group.
func (l *memoryLog) touch(g *logGroup) {
	if l.newest != g {
		l.unlink(g)
		l.link(g)
	}
}

func (l *memoryLog) link(g *logGroup) {
	g.prev, g.next = l.newest, nil
	if l.newest != nil {
		l.newest.next = g
	} else {
		l.oldest = g
	}
	l.newest = g
}

func (l *memoryLog) unlink(g *logGroup) {
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		l.oldest = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	} else {
		l.newest = g.prev
	}
}

// purge removes the record at p, the oldest one of a stream of g. It also removes the stream and the
// group when they become empty.
func (l *memoryLog) purge(g *logGroup, p position) {
	number, cost := g.entries.stream(p), costOf(g.entries.entry(p))
	s := &g.streams[number]
	s.oldest = g.entries.following(p)
	s.n--
	g.entries.remove(p)
	g.bytes -= cost
	l.bytes -= cost
	if s.n == 0 {
		l.bytes -= int64(len(s.name)) + streamOverhead
		g.removeStream(number)
	}
	if len(g.numbers) == 0 {
		l.drop(g)
	} else if g.entries.wasteful() {
		g.compact()
	}
}

// drop removes a group and its streams.
func (l *memoryLog) drop(g *logGroup) {
	l.bytes -= g.bytes + int64(len(g.name)) + streamOverhead
	for name := range g.numbers {
		l.bytes -= int64(len(name)) + streamOverhead
	}
	l.unlink(g)
	delete(l.groups, g.name)
}

// addStream adds an empty stream and returns its number. The caller must add an entry.
func (g *logGroup) addStream(name string) (number uint32) {
	if last := len(g.unused) - 1; last >= 0 {
		number, g.unused = g.unused[last], g.unused[:last]
	} else {
		number = uint32(len(g.streams))
		g.streams = append(g.streams, logStream{})
	}
	g.streams[number].name = name
	g.numbers[name] = number
	return number
}

func (g *logGroup) removeStream(number uint32) {
	delete(g.numbers, g.streams[number].name)
	g.streams[number] = logStream{}
	g.unused = append(g.unused, number)
}

// push adds an entry to a stream. Record is the result of newRecord.
func (g *logGroup) push(number uint32, entry, record []byte) {
	p := g.entries.push(number, entry, record)
	s := &g.streams[number]
	if s.newest != 0 {
		g.entries.setFollowing(s.newest, p)
	} else {
		s.oldest = p
	}
	s.newest = p
	s.n++
}

// compact copies the entries to a new queue, without the removed ones.
func (g *logGroup) compact() {
	old := g.entries
	g.entries = recordQueue{}
	for i := range g.streams {
		s := &g.streams[i]
		s.oldest, s.newest, s.n = 0, 0, 0
	}
	old.all(func(number uint32, entry []byte) { g.push(number, entry, newRecord(entry)) })
}

// recordQueue holds the entries of a group of a memoryLog, in the order of their Append. They are
// records in blocks of bytes: if each entry were an object of its own, the garbage collector would have
// to mark tens of thousands of objects for each busy session.
//
// A removed record remains in its block until all records of the block are removed. If a queue is
// wasteful, the caller must copy the other records to a new queue.
//
// Invariant: the first block has a record that is not removed, and begins with it.
type recordQueue struct {
	blocks []block
	popped uint64 // number of blocks that were removed at the front
	live   int    // size of the records that are not removed, in bytes
	size   int    // of the blocks, in bytes
}

// block is a part of a recordQueue. Its data are nil if all its records are removed.
type block struct {
	data  []byte
	begin int // where the first record that is not removed begins; used for the first block only
	live  int // number of records that are not removed
}

// position is the position of a record: one more than the number of its block, and its offset in the
// lowest offsetBits. Zero is no position.
type position uint64

const offsetBits = 16

// A record consists of the position of the next record of its stream, the number of the stream, the
// length of the entry and the entry.
const (
	atStream     = 8
	atLength     = 12
	recordHeader = 16
)

// removedStream is the number of the stream of a removed record.
const removedStream = ^uint32(0)

// Sizes of blocks, in bytes. Most blocks have a quarter of the size of the records that the queue has
// already, so that a queue with few records is small. A long record has a block of its own, so that
// little remains unused at the end of the others.
const (
	minBlock = 512
	maxBlock = 32 << 10
	long     = maxBlock / 4 // longest record that shares a block
)

// newRecord returns a long record. It returns nil if the entry is shorter. It copies the entry, so call
// it without a lock.
func newRecord(entry []byte) []byte {
	if size := recordHeader + len(entry); size > long {
		return appendRecord(make([]byte, 0, size), entry)
	}
	return nil
}

func appendRecord(dst, entry []byte) []byte {
	var header [recordHeader]byte
	binary.LittleEndian.PutUint32(header[atLength:], uint32(len(entry)))
	return append(append(dst, header[:]...), entry...)
}

// push adds a record with entry. Record is the result of newRecord.
func (q *recordQueue) push(stream uint32, entry, record []byte) position {
	size := recordHeader + len(entry)
	if record != nil {
		q.add(record)
	} else if last := len(q.blocks) - 1; last < 0 || cap(q.blocks[last].data)-len(q.blocks[last].data) < size {
		q.add(make([]byte, 0, max(size, min(max(q.live/4, minBlock), maxBlock))))
	}
	b := &q.blocks[len(q.blocks)-1]
	if record == nil {
		b.data = appendRecord(b.data, entry)
	}
	b.live++
	q.live += size
	offset := len(b.data) - size
	binary.LittleEndian.PutUint32(b.data[offset+atStream:], stream)
	return position(q.popped+uint64(len(q.blocks)))<<offsetBits | position(offset)
}

// add adds a block.
func (q *recordQueue) add(data []byte) {
	q.blocks = append(q.blocks, block{data: data})
	q.size += cap(data)
}

// at returns the block of a record, and the block from the record on.
func (q *recordQueue) at(p position) (*block, []byte) {
	b := &q.blocks[uint64(p>>offsetBits)-1-q.popped]
	return b, b.data[p&(1<<offsetBits-1):]
}

// oldest returns the position of the oldest record. The queue must not be empty.
func (q *recordQueue) oldest() position {
	return position(q.popped+1)<<offsetBits | position(q.blocks[0].begin)
}

// stream returns the number of the stream of a record.
func (q *recordQueue) stream(p position) uint32 {
	_, r := q.at(p)
	return streamOf(r)
}

// entry returns the entry of a record, which never changes.
func (q *recordQueue) entry(p position) []byte {
	_, r := q.at(p)
	return r[recordHeader:sizeOf(r):sizeOf(r)]
}

// following returns the position that setFollowing has set, or zero.
func (q *recordQueue) following(p position) position {
	_, r := q.at(p)
	return position(binary.LittleEndian.Uint64(r))
}

func (q *recordQueue) setFollowing(p, next position) {
	_, r := q.at(p)
	binary.LittleEndian.PutUint64(r, uint64(next))
}

// remove removes a record. Its entry remains valid.
func (q *recordQueue) remove(p position) {
	b, r := q.at(p)
	q.live -= sizeOf(r)
	binary.LittleEndian.PutUint32(r[atStream:], removedStream)
	if b.live--; b.live == 0 {
		q.size -= cap(b.data)
		b.data = nil
	}
	for len(q.blocks) > 0 && q.blocks[0].live == 0 {
		q.blocks = q.blocks[1:]
		q.popped++
	}
	if len(q.blocks) > 0 {
		first := &q.blocks[0]
		for streamOf(first.data[first.begin:]) == removedStream {
			first.begin += sizeOf(first.data[first.begin:])
		}
	}
}

// wasteful reports whether more than half of the blocks is unused. Copying the rest is then cheaper
// than adding the removed records was.
func (q *recordQueue) wasteful() bool { return q.size > 2*q.live+minBlock }

// all calls f with each record, oldest first.
func (q *recordQueue) all(f func(stream uint32, entry []byte)) {
	for _, b := range q.blocks {
		for at := b.begin; at < len(b.data); {
			r := b.data[at:]
			if streamOf(r) != removedStream {
				f(streamOf(r), r[recordHeader:sizeOf(r)])
			}
			at += sizeOf(r)
		}
	}
}

// streamOf and sizeOf read the header of the record at the beginning of r.

func streamOf(r []byte) uint32 { return binary.LittleEndian.Uint32(r[atStream:]) }

func sizeOf(r []byte) int { return recordHeader + int(binary.LittleEndian.Uint32(r[atLength:])) }
