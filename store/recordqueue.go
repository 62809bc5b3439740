package store

import "encoding/binary"

// recordQueue holds the entries of a group of a [memoryLog], in the order of their Append. They are
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
