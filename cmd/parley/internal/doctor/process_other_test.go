//go:build !linux

package doctor

func serveBadly() {}
