package legacy

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Every request reads the record of its session, which must therefore be short. The record
// contains at most maxInline bytes of the URIs of subscriptions. Each other URI is in a bucket: a
// value of the store with its own key, which a digest of the URI selects. The record contains the
// index of the buckets. A change reads and writes the record and at most one bucket.
//
// The record never counts fewer bytes than the buckets contain: Subscribe writes the record
// before the bucket, and Unsubscribe writes the bucket before the record. Each change of a bucket
// has a number, which is in the bucket and in the index, so that other replicas know which
// buckets to read again. If the second write fails, the numbers differ until the next change of
// the bucket, which also corrects the record.
const (
	maxInline  = 2 << 10 // bytes
	maxBuckets = 64
)

// bucketIndex describes the buckets of a session.
type bucketIndex struct {
	// Seed is random, so that a client cannot choose URIs that are all in one bucket.
	Seed    string       `json:"seed"`
	Renewed int64        `json:"renewed"` // when the life of all buckets was renewed, in Unix seconds
	Buckets []bucketInfo `json:"buckets"` // each bucket once, in no order
}

// bucketInfo describes a bucket. It is an array because that is its stored form.
type bucketInfo [4]int

// Indices of bucketInfo.
const (
	bucketNumber = iota // below maxBuckets
	bucketChange        // the number of the last change
	bucketURIs          // how many
	bucketBytes         // of the URIs
)

// bucket is one bucket in memory, or the URIs of the record.
type bucket struct {
	number  int
	change  int // the number of the last change
	uris    []string
	version uint64 // of the value in the store; 0 if the store does not have the bucket
}

// inline is the number of the record in place of a bucket.
const inline = -1

// indexOf returns the index of the bucket with a number, or -1.
func indexOf(all []bucket, number int) int {
	return slices.IndexFunc(all, func(b bucket) bool { return b.number == number })
}

// bucketOf returns the number of the bucket of a URI. It initializes an index without buckets.
func (x *bucketIndex) bucketOf(uri string) int {
	if len(x.Buckets) == 0 {
		x.Seed, x.Renewed = rand.Text(), time.Now().Unix()
	}
	sum := sha256.Sum256([]byte(x.Seed + uri))
	return int(sum[0]) % maxBuckets
}

// find returns the description of a bucket, or nil if the session does not have it.
func (x *bucketIndex) find(number int) *bucketInfo {
	for i := range x.Buckets {
		if x.Buckets[i][bucketNumber] == number {
			return &x.Buckets[i]
		}
	}
	return nil
}

// lastChange returns the number of the last change of a bucket, or 0.
func (x *bucketIndex) lastChange(number int) int {
	if info := x.find(number); info != nil {
		return info[bucketChange]
	}
	return 0
}

// set records the content of a bucket.
func (x *bucketIndex) set(b bucket) {
	info := x.find(b.number)
	if info == nil {
		x.Buckets = append(x.Buckets, bucketInfo{})
		info = &x.Buckets[len(x.Buckets)-1]
	}
	*info = bucketInfo{b.number, b.change, len(b.uris), bytesOf(b.uris)}
}

// numbers returns the buckets that the session has.
func (x *bucketIndex) numbers() (set bucketSet) {
	for _, b := range x.Buckets {
		set |= 1 << b[bucketNumber]
	}
	return set
}

// bucketSet is a set of buckets: bit i is bucket i.
type bucketSet uint64

// list returns the buckets of the set.
func (s bucketSet) list() (all []int) {
	for i := range maxBuckets {
		if s&(1<<i) != 0 {
			all = append(all, i)
		}
	}
	return all
}

// bytesOf returns the length of all URIs.
func bytesOf(uris []string) (n int) {
	for _, uri := range uris {
		n += len(uri)
	}
	return n
}

// subscribed returns the number of all URIs of a session and their bytes.
func (s *State) subscribed() (n, bytes int) {
	n, bytes = len(s.Subscribed), bytesOf(s.Subscribed)
	for _, b := range s.Index.Buckets {
		n, bytes = n+b[bucketURIs], bytes+b[bucketBytes]
	}
	return n, bytes
}

// subscribedSize returns the bytes that the URIs of a session count.
func (s *State) subscribedSize() int {
	n, bytes := s.subscribed()
	return changes.SubscribedSizeOf(n, bytes)
}

// bucketKey returns the key of a bucket in the store.
func bucketKey(sessionKey string, number int) string {
	return sessionKey + "/subscribed/" + strconv.Itoa(number)
}

// encode returns the bucket as JSON.
func (b *bucket) encode() []byte {
	raw := make([]byte, 0, 64+len(b.uris)*4+bytesOf(b.uris))
	raw = fmt.Appendf(raw, `{"change":%d,"uris":`, b.change)
	return append(appendStrings(raw, b.uris), '}')
}

// decodeBucket decodes the result of encode.
func decodeBucket(raw []byte) (bucket, error) {
	var stored struct {
		Change int      `json:"change"`
		URIs   []string `json:"uris"`
	}
	if err := jsonv2.Unmarshal(raw, &stored); err != nil || stored.Change <= 0 {
		return bucket{}, errBadState
	}
	return bucket{change: stored.Change, uris: stored.URIs}, nil
}

// append appends the index as JSON.
func (x *bucketIndex) append(dst []byte) []byte {
	dst = jsonrpc.AppendString(append(dst, `{"seed":`...), x.Seed)
	dst = fmt.Appendf(dst, `,"renewed":%d,"buckets":[`, x.Renewed)
	for i, b := range x.Buckets {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, "[%d,%d,%d,%d]", b[0], b[1], b[2], b[3])
	}
	return append(dst, `]}`...)
}

// decodeBucketIndex decodes the result of append.
func decodeBucketIndex(raw []byte) (x bucketIndex, err error) {
	if err := jsonv2.Unmarshal(raw, &x); err != nil {
		return bucketIndex{}, errBadState
	}
	for _, b := range x.Buckets {
		if b[bucketNumber] < 0 || b[bucketNumber] >= maxBuckets || b[bucketChange] <= 0 || b[bucketURIs] < 0 || b[bucketBytes] < 0 {
			return bucketIndex{}, errBadState
		}
	}
	return x, nil
}

// appendStrings appends the strings as a JSON array.
func appendStrings(dst []byte, all []string) []byte {
	dst = append(dst, '[')
	for i, s := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonrpc.AppendString(dst, s)
	}
	return append(dst, ']')
}
