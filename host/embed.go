package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// embedBatch is the maximum number of texts of one call of Host.Embed.
	embedBatch = 256

	// fusionOffset and fusionDepth are the constants of reciprocal rank fusion (Cormack, Clarke and Büttcher,
	// 2009): a tool at rank r of a ranking has the score 1/(fusionOffset+r) if r is less than fusionDepth.
	fusionOffset = 60
	fusionDepth  = 100
)

// rank returns the indexes of the tools of a catalog that match a query, the best first.
func (h *Host) rank(ctx context.Context, c *catalog, query string) []int32 {
	words := c.index.rank(query)
	if h.Embed == nil {
		return words
	}
	meaning, err := h.rankByVectors(ctx, c, query)
	if err != nil {
		h.logger().WarnContext(ctx, "tools are searched by words alone: Embed has failed", "error", err)
		return words
	}
	return fuse(len(c.tools), words, meaning)
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

// rankByVectors returns the indexes of all tools in the order of the angles between their vectors and that of
// the query.
func (h *Host) rankByVectors(ctx context.Context, c *catalog, query string) ([]int32, error) {
	vectors, err := h.vectorsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	wanted, err := h.embed(ctx, []string{query})
	if err != nil {
		return nil, err
	}
	scores, all := make([]float32, len(vectors)), make([]int32, len(vectors))
	for i, v := range vectors {
		if len(v) != len(wanted[0]) {
			return nil, errors.New("the vectors must have one length")
		}
		scores[i], all[i] = cosine(v, wanted[0]), int32(i)
	}
	return sortByScore(all, scores), nil
}

// vectorsOf returns the vectors of the tools of a catalog. It embeds the tools that were not in the catalog
// before. Concurrent searches wait for the one that embeds.
func (h *Host) vectorsOf(ctx context.Context, c *catalog) ([][]float32, error) {
	if known := c.vectors.Load(); known != nil {
		return *known, nil
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
		return nil, context.Cause(ctx)
	}
	if known := c.vectors.Load(); known != nil {
		return *known, nil
	}
	h.cataloging.Lock()
	known := h.embedded // immutable
	h.cataloging.Unlock()
	texts := make([]string, len(c.tools))
	var missing []string
	for i := range c.tools {
		texts[i] = textOf(&c.tools[i])
		if known[texts[i]] == nil {
			missing = append(missing, texts[i])
		}
	}
	now := make(map[string][]float32, len(texts))
	for batch := range slices.Chunk(missing, embedBatch) {
		vectors, err := h.embed(ctx, batch)
		if err != nil {
			return nil, err
		}
		for i, v := range vectors {
			now[batch[i]] = v
		}
	}
	all := make([][]float32, len(texts))
	for i, text := range texts {
		if now[text] == nil {
			now[text] = known[text]
		}
		all[i] = now[text]
	}
	c.vectors.Store(&all)
	h.cataloging.Lock()
	defer h.cataloging.Unlock()
	h.embedded = now
	return all, nil
}

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

// textOf returns the text of a tool to embed.
func textOf(t *MergedTool) string {
	var b strings.Builder
	for _, f := range documentOf(t) {
		if f.text != "" {
			b.WriteString(f.text + "\n")
		}
	}
	return b.String()
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
