package jsonrpc

// Limits bounds what a peer can make the parser accept. A field that is zero or
// less means its default. How long the input may be is for its reader to bound.
type Limits struct {
	MaxDepth   int // nesting of objects and arrays; default 128
	MaxMembers int // members of one object; default 10,000
	MaxTokens  int // values and member names in one message; default 1,000,000
	MaxID      int // bytes of an id as written, a string's quotes included; default 256
	MaxMethod  int // bytes of a method name as written, without its quotes; default 128
	MaxBatch   int // messages in one batch; default 100
}

func (l *Limits) setDefaults() {
	for _, f := range [...]struct {
		limit *int
		value int
	}{
		{&l.MaxDepth, 128},
		{&l.MaxMembers, 10_000},
		{&l.MaxTokens, 1_000_000},
		{&l.MaxID, 256},
		{&l.MaxMethod, 128},
		{&l.MaxBatch, 100},
	} {
		if *f.limit <= 0 {
			*f.limit = f.value
		}
	}
}
