package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Search returns the tools of [Host.Tools] that match a query, the best match first. It compares the words of the query
// with the names, titles, descriptions and argument names of the tools by BM25. Equal matches keep the order of
// Host.Tools, and an empty query matches all tools. Search returns at most limit tools; 0 means all that match. It
// waits for no server. The caller owns the slice. It must not modify the definitions.
//
// For a server with [ServerConfig.CallerAuth], Search uses the list of the caller of ctx, if it is known.
//
// Let a model search for tools, and call them with [Host.Call], when there are too many definitions for its context.
func (h *Host) Search(ctx context.Context, query string, limit int) []Tool {
	cs := h.catalogs(ctx)
	if strings.TrimSpace(query) != "" {
		ranked := cs.rank(query)
		if limit > 0 {
			ranked = ranked[:min(limit, len(ranked))]
		}
		found := make([]Tool, len(ranked))
		for i, document := range ranked {
			found[i] = *cs.document(int(document))
		}
		return found
	}
	n := cs.size()
	if limit > 0 {
		n = min(limit, n)
	}
	found := make([]Tool, 0, n)
	for _, c := range cs {
		found = append(found, c.tools[:min(n-len(found), len(c.tools))]...)
	}
	return found
}

// ToolsVersion returns a digest of the names and definitions of the tools that [Host.Search] finds for the caller of
// ctx, in order. A program that keeps search results compares versions to notice that a tool was added, removed or
// changed. Hosts with the same tools return the same version.
func (h *Host) ToolsVersion(ctx context.Context) string {
	digest := sha256.New()
	for _, c := range h.catalogs(ctx) {
		digest.Write(c.digest[:])
	}
	return hex.EncodeToString(digest.Sum(nil)[:8])
}

// The parameters of BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009). saturation
// limits the effect of a repeated term; normalization sets the effect of a document's length.
const (
	saturation    = 1.2
	normalization = 0.75
)

// index contains the terms of documents. It is immutable.
type index struct {
	lengths []float32 // lengths of the documents
	total   float32   // sum of the lengths
	terms   map[string][]posting
}

// posting says how often a document contains a term, weighted by field.
type posting struct {
	document  int32
	frequency float32
}

// field is a part of a document. The terms of a field with the weight 2 count twice.
type field struct {
	text   string
	weight float32
}

func newIndex(documents [][]field) *index {
	x := &index{lengths: make([]float32, len(documents)), terms: make(map[string][]posting)}
	for i, fields := range documents {
		for _, f := range fields {
			for term := range termsOf(f.text) {
				x.lengths[i] += f.weight
				postings := x.terms[term]
				if n := len(postings); n > 0 && postings[n-1].document == int32(i) {
					postings[n-1].frequency += f.weight
				} else {
					x.terms[term] = append(postings, posting{int32(i), f.weight})
				}
			}
		}
		x.total += x.lengths[i]
	}
	return x
}

// maxQueryTerms limits how many terms of a query count.
const maxQueryTerms = 64

// rank returns the numbers of the tools that contain a term of the query, best first; ties keep the order of the
// tools. The scores equal those of a single index of all catalogs.
func (cs catalogs) rank(query string) []int32 {
	size := cs.size()
	var total float32
	for _, c := range cs {
		total += c.index.total
	}
	average := max(total, 1) / float32(max(size, 1))
	scores := make([]float32, size)
	var found []int32
	terms := 0
	for term := range termsOf(query) {
		if terms++; terms > maxQueryTerms {
			break
		}
		n := 0 // number of documents with the term
		for _, c := range cs {
			n += len(c.index.terms[term])
		}
		rarity := float32(math.Log(1 + (float64(size-n)+0.5)/(float64(n)+0.5)))
		first := int32(0)
		for _, c := range cs {
			for _, p := range c.index.terms[term] {
				length := 1 - normalization + normalization*c.index.lengths[p.document]/average
				document := first + p.document
				if scores[document] == 0 {
					found = append(found, document)
				}
				scores[document] += rarity * p.frequency * (saturation + 1) / (p.frequency + saturation*length)
			}
			first += int32(len(c.tools))
		}
	}
	slices.SortFunc(found, func(a, b int32) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) // equal scores: by number
	})
	return found
}

// termsOf yields the words of a text in lower case and without endings. The parts of a name such as readFile or
// HTTP_status are words, and so is each letter of a script that writes no spaces.
func termsOf(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		runes := []rune(text)
		start := 0 // start of the current word
		for i := 0; i <= len(runes); i++ {
			if i < len(runes) && i > start && !isBoundary(runes, i) {
				continue
			}
			if i > start && isWordRune(runes[start]) && !yield(stem(strings.ToLower(string(runes[start:i])))) {
				return
			}
			start = i
		}
	}
}

// isBoundary reports whether a word ends before the rune at i.
func isBoundary(runes []rune, i int) bool {
	before, r := runes[i-1], runes[i]
	switch {
	case !isWordRune(r) || !isWordRune(before):
		return true
	case unicode.In(r, ideographs...) || unicode.In(before, ideographs...):
		return true
	case unicode.IsUpper(r) && !unicode.IsUpper(before):
		return true
	}
	return unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

var ideographs = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana}

// stem removes frequent English endings, so that "files", "deleting" and "deleted" match "file" and "delete". The
// results need not be words.
func stem(word string) string {
	if len(word) < 4 {
		return word
	}
	if !strings.HasSuffix(word, "ss") && !strings.HasSuffix(word, "us") && !strings.HasSuffix(word, "is") {
		word = strings.TrimSuffix(word, "s")
	}
	for _, ending := range []string{"ing", "ed"} {
		if rest, found := strings.CutSuffix(word, ending); found && len(rest) >= 3 {
			word = rest
			break
		}
	}
	if len(word) > 3 {
		word = strings.TrimSuffix(word, "e")
	}
	if rest, found := strings.CutSuffix(word, "i"); found { // queries, from query
		word = rest + "y"
	}
	return word
}
