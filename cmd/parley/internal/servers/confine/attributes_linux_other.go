//go:build linux && (arm64 || riscv64)

package confine

var olderAttributes []uint32
