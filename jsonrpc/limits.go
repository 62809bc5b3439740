package jsonrpc

// Limits bounds the input that the parser accepts. A field that is zero or less
// has its default. The reader of the input must bound its length.
type Limits struct {
	MaxDepth   int // nesting of objects and arrays; default 128
	MaxMembers int // members of one object; default 10,000
	MaxTokens  int // values and member names in one message; default 1,000,000
	MaxID      int // bytes of an id as written, including the quotes of a string; default 256
	MaxMethod  int // bytes of a method name as written, without its quotes; default 128
	MaxBatch   int // messages in one batch; default 100
}

func (l *Limits) setDefaults() {
	if l.MaxDepth <= 0 {
		l.MaxDepth = 128
	}
	if l.MaxMembers <= 0 {
		l.MaxMembers = 10_000
	}
	if l.MaxTokens <= 0 {
		l.MaxTokens = 1_000_000
	}
	if l.MaxID <= 0 {
		l.MaxID = 256
	}
	if l.MaxMethod <= 0 {
		l.MaxMethod = 128
	}
	if l.MaxBatch <= 0 {
		l.MaxBatch = 100
	}
}
