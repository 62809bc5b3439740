package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

const (
	// embedBatch is the maximum number of texts of one call of Host.Embed.
	embedBatch = 256
	// maxEmbedded is the number of texts whose vectors are kept for tools that are not in the last search.
	maxEmbedded = 4096

	// fusionOffset and fusionDepth are the constants of reciprocal rank fusion (Cormack, Clarke and Büttcher,
	// 2009): a tool at rank r of a ranking has the score 1/(fusionOffset+r) if r is less than fusionDepth.
	fusionOffset = 60
	fusionDepth  = 100
)

// rank returns the numbers of the tools that match a query, the best first.
func (h *Host) rank(ctx context.Context, cs catalogs, query string) []int32 {
	words := cs.rank(query)
	if h.Embed == nil {
		return words
	}
	meaning, err := h.rankByVectors(ctx, cs, query)
	if err != nil {
		h.logger().WarnContext(ctx, "tools are searched by words alone: Embed has failed", "error", err)
		return words
	}
	return fuse(cs.size(), words, meaning)
}

// fuse combines rankings of n documents by reciprocal rank.
func fuse(n int, rankings ...[]int32) []int32 {
	scores := make([]float32, n)
	var found []int32
	for _, ranking := range rankings {
		for r, document := range ranking[:min(len(ranking), fusionDepth)] {
			if scores[document] == 0 {
				found = append(found, document)
			}
			scores[document] += 1 / float32(fusionOffset+r)
		}
	}
	return sortByScore(found, scores)
}

// sortByScore sorts documents by their scores, the highest first, and equal ones by their numbers.
func sortByScore(documents []int32, scores []float32) []int32 {
	slices.SortFunc(documents, func(a, b int32) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return documents
}

// rankByVectors returns the numbers of all tools in the order of the angles between their vectors and that of
// the query.
func (h *Host) rankByVectors(ctx context.Context, cs catalogs, query string) ([]int32, error) {
	if err := h.embedTools(ctx, cs); err != nil {
		return nil, err
	}
	wanted, err := h.embed(ctx, []string{query})
	if err != nil {
		return nil, err
	}
	var scores []float32
	var all []int32
	for _, c := range cs {
		for _, v := range *c.vectors.Load() {
			if len(v) != len(wanted[0]) {
				return nil, errors.New("the vectors must have one length")
			}
			scores, all = append(scores, cosine(v, wanted[0])), append(all, int32(len(all)))
		}
	}
	return sortByScore(all, scores), nil
}

// embedTools sets the vectors of catalogs that have none. It embeds the texts whose vectors are not known from other
// catalogs. Concurrent searches wait for the one that embeds.
func (h *Host) embedTools(ctx context.Context, cs catalogs) error {
	if !slices.ContainsFunc(cs, (*catalog).hasNoVectors) {
		return nil
	}
	h.cataloging.Lock()
	if h.embedding == nil {
		h.embedding = make(chan struct{}, 1)
	}
	turn := h.embedding
	h.cataloging.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	known := make(map[string][]float32) // of these tools
	texts := make([][]string, len(cs))
	var missing []string
	for i, c := range cs {
		for j := range c.tools {
			text := textOf(&c.tools[j])
			texts[i] = append(texts[i], text)
			if _, seen := known[text]; seen {
				continue
			}
			if known[text] = h.embedded[text]; known[text] == nil {
				missing = append(missing, text)
			}
		}
	}
	for batch := range slices.Chunk(missing, embedBatch) {
		vectors, err := h.embed(ctx, batch)
		if err != nil {
			return err
		}
		for i, v := range vectors {
			known[batch[i]] = v
		}
	}
	for i, c := range cs {
		vectors := make([][]float32, len(c.tools))
		for j, text := range texts[i] {
			vectors[j] = known[text]
		}
		c.vectors.Store(&vectors)
	}
	if len(h.embedded)+len(missing) > max(maxEmbedded, 2*len(known)) {
		h.embedded = nil // of tools that may have been removed, and of other callers
	}
	if h.embedded == nil {
		h.embedded = make(map[string][]float32, len(known))
	}
	maps.Copy(h.embedded, known)
	return nil
}

func (c *catalog) hasNoVectors() bool { return c.vectors.Load() == nil }

func (h *Host) embed(ctx context.Context, texts []string) ([][]float32, error) {
	var vectors [][]float32
	err := h.contain("Embed", func() (err error) {
		vectors, err = h.Embed(ctx, texts)
		return err
	})
	if err == nil && len(vectors) != len(texts) {
		err = fmt.Errorf("%d texts must have as many vectors, got %d", len(texts), len(vectors))
	}
	return vectors, err
}

// cosine returns the cosine of the angle between two vectors of one length.
func cosine(a, b []float32) float32 {
	var product, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		product, aa, bb = product+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return float32(product / math.Sqrt(aa*bb))
}
