package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/parley-mcp/parley/jsonrpc"
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

// catalog is the tools of one server at one time, with an index of them. It is immutable.
type catalog struct {
	listed []Tool
	tools  []Tool // the tools of listed that a model may see
	index  *index
	digest [sha256.Size]byte // digest of the names and definitions, in order
}

// catalogs are the catalogs of a Host's servers, in order. Each tool is a document; documents are numbered across
// all catalogs.
type catalogs []*catalog

// catalogs returns the catalogs for the caller of ctx. It makes a new catalog for a server whose list has
// changed.
func (h *Host) catalogs(ctx context.Context) (all catalogs) {
	h.cataloging.Lock() // so that concurrent searches make each catalog once
	defer h.cataloging.Unlock()
	for _, l := range h.toolLists(ctx) {
		all = append(all, l.current())
	}
	return all
}

// toolList is the list of the tools of one server at one moment.
type toolList struct {
	tools  []Tool
	last   **catalog // guarded by Host.cataloging
	byName bool      // lists with the same names count as the same
}

// toolLists returns the lists of the servers for the caller of ctx at one moment, as far as known.
func (h *Host) toolLists(ctx context.Context) (lists []toolList) {
	h.names.mu.RLock()
	defer h.names.mu.RUnlock()
	for _, s := range h.all() {
		if s.config.CallerAuth != nil {
			if o := s.pool.known(ctx).offer; o != nil {
				tools, _ := withoutClaimed(s, h.names.tools, "tool", o.offered.tools, nameOfTool)
				lists = append(lists, toolList{tools, &o.catalog, true})
				continue
			}
		}
		lists = append(lists, toolList{tools: s.snapshot().Tools, last: &s.catalog})
	}
	return lists
}

// current returns the catalog of a list. Host.cataloging must be locked.
func (l *toolList) current() *catalog {
	if *l.last == nil || !l.isOf(*l.last) {
		*l.last = newCatalog(l.tools)
	}
	return *l.last
}

// isOf reports whether a catalog was made from l. A list of a server is never modified, only replaced.
func (l *toolList) isOf(c *catalog) bool {
	switch {
	case len(l.tools) != len(c.listed):
		return false
	case len(l.tools) == 0 || &l.tools[0] == &c.listed[0]:
		return true
	}
	return l.byName && slices.EqualFunc(l.tools, c.listed, func(a, b Tool) bool { return a.Name == b.Name })
}

func nameOfTool(t *Tool) string { return t.Name }

func newCatalog(listed []Tool) *catalog {
	tools := forModel(listed)
	c := &catalog{listed: listed, tools: tools}
	documents := make([][]field, len(tools))
	digest := sha256.New()
	for i := range tools {
		t := &tools[i]
		documents[i] = documentOf(t)
		// The definition is valid JSON, so the names of two tools cannot run into each other.
		definition, _ := json.Marshal(&t.Definition)
		digest.Write([]byte(t.Name))
		digest.Write(definition)
	}
	c.index = newIndex(documents)
	digest.Sum(c.digest[:0])
	return c
}

// document returns the tool with a number.
func (cs catalogs) document(number int) *Tool {
	for _, c := range cs {
		if number < len(c.tools) {
			return &c.tools[number]
		}
		number -= len(c.tools)
	}
	return nil
}

// size returns the number of tools.
func (cs catalogs) size() (n int) {
	for _, c := range cs {
		n += len(c.tools)
	}
	return n
}

// documentOf returns the parts of a tool that a search compares with a query. The name matters most.
func documentOf(t *Tool) []field {
	d := &t.Definition
	fields := []field{{t.Server, 1}, {d.Name, 3}, {d.Title, 2}, {d.Description, 1}}
	if d.Annotations != nil && d.Title == "" {
		fields = append(fields, field{d.Annotations.Title, 2})
	}
	for name := range jsonrpc.All(objectIn(d.InputSchema, "properties")) {
		fields = append(fields, field{name, 1})
	}
	return fields
}

// objectIn returns the value of a key if both the object and the value are JSON objects, and otherwise an
// empty object.
func objectIn(object json.RawMessage, name string) json.RawMessage {
	if len(object) > 0 && object[0] == '{' {
		if value, ok := jsonrpc.Get(object, name); ok && value[0] == '{' {
			return value
		}
	}
	return json.RawMessage("{}")
}
