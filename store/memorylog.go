package store

import (
	"context"
	"fmt"
	"sync"
)

// streamOverhead approximates the memory of a stream in addition to its entries, and of a group in
// addition to its streams.
const streamOverhead = 320

// memoryLog is the [Log] of a [Memory].
//
// Invariants: each group has at least one stream, and each stream at least one entry. The entries of a
// group, and those of each stream, are linked in the order of their Append. So the oldest entry of a
// group is also the oldest of its stream. Groups are linked in the order of their latest Append.
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
	streams    map[string]*logStream
	bytes      int64 // of its entries, overhead included
	expires    int64
	oldest     *logEntry
	newest     *logEntry
	prev, next *logGroup
}

type logStream struct {
	name           string
	oldest, newest *logEntry
	n              int
	last           uint64 // number of the newest entry
}

type logEntry struct {
	data       []byte
	stream     *logStream
	following  *logEntry // in the stream
	prev, next *logEntry // in the group
}

func (e *logEntry) cost() int64 { return int64(len(e.data)) + LogOverhead }

// Append implements [Log]. When the log exceeds MaxLogBytes, Append purges the oldest entries of the
// group with the least recent Append.
func (m *Memory) Append(ctx context.Context, key StreamKey, seq uint64, entry []byte, opt AppendOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := CheckAppend(key, seq, entry, opt); err != nil {
		return err
	}
	l := &m.log
	added := &logEntry{data: append(make([]byte, 0, len(entry)), entry...)}
	if need := added.cost() + overheadOf(key); need > l.max {
		return fmt.Errorf("%w: entry is too large for the log: %d bytes with overhead, the limit is %d", ErrFull, need, l.max)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	now := m.clock()
	for l.oldest != nil && l.oldest.expires <= now {
		l.drop(l.oldest)
	}
	g := l.find(key.Group, now)
	if g != nil {
		if s := g.streams[key.Stream]; s != nil && seq != s.last+1 {
			return fmt.Errorf("%w: entry %d cannot follow entry %d", ErrConflict, seq, s.last)
		}
	} else {
		g = l.add(key.Group)
	}
	g.expires = max(g.expires, after(now, opt.TTL))
	l.touch(g)
	s := g.streams[key.Stream]
	if s == nil {
		s = &logStream{name: key.Stream}
		g.streams[key.Stream] = s
		l.bytes += int64(len(s.name)) + streamOverhead
	}
	l.push(g, s, added)
	s.last = seq
	for s.n > opt.MaxEntries {
		l.purge(g, s.oldest)
	}
	for g.bytes > opt.MaxBytes {
		l.purge(g, g.oldest)
	}
	for l.bytes > l.max {
		l.purge(l.oldest, l.oldest.oldest)
	}
	return nil
}

// overheadOf returns the overhead of a new group with one stream.
func overheadOf(key StreamKey) int64 {
	return int64(len(key.Group)) + int64(len(key.Stream)) + 2*streamOverhead
}

// ReadAfter implements [Log].
func (m *Memory) ReadAfter(ctx context.Context, key StreamKey, seq uint64) ([][]byte, error) {
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
	s := g.streams[key.Stream]
	if s == nil || seq > s.last {
		return nil, ErrNotFound
	}
	e, at := s.oldest, s.last-uint64(s.n)+1
	if seq+1 < at {
		return nil, fmt.Errorf("%w: the oldest remaining entry is %d", ErrPurged, at)
	}
	entries := make([][]byte, 0, s.last-seq)
	for ; e != nil; e, at = e.following, at+1 {
		if at > seq {
			entries = append(entries, e.data)
		}
	}
	return entries, nil
}

// Drop implements [Log].
func (m *Memory) Drop(ctx context.Context, group string) error {
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
	g := &logGroup{name: group, streams: make(map[string]*logStream, 1)}
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

func (l *memoryLog) push(g *logGroup, s *logStream, e *logEntry) {
	e.stream, e.prev = s, g.newest
	if g.newest != nil {
		g.newest.next = e
	} else {
		g.oldest = e
	}
	g.newest = e
	if s.newest != nil {
		s.newest.following = e
	} else {
		s.oldest = e
	}
	s.newest = e
	s.n++
	g.bytes += e.cost()
	l.bytes += e.cost()
}

// purge removes e, the oldest entry of a stream of g. It also removes the stream and the group when
// they become empty.
func (l *memoryLog) purge(g *logGroup, e *logEntry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		g.oldest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		g.newest = e.prev
	}
	s := e.stream
	s.oldest = e.following
	s.n--
	g.bytes -= e.cost()
	l.bytes -= e.cost()
	if s.n > 0 {
		return
	}
	delete(g.streams, s.name)
	l.bytes -= int64(len(s.name)) + streamOverhead
	if len(g.streams) == 0 {
		l.drop(g)
	}
}

// drop removes a group and its streams.
func (l *memoryLog) drop(g *logGroup) {
	l.bytes -= g.bytes + int64(len(g.name)) + streamOverhead
	for _, s := range g.streams {
		l.bytes -= int64(len(s.name)) + streamOverhead
	}
	l.unlink(g)
	delete(l.groups, g.name)
}
