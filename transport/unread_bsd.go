//go:build darwin || freebsd

package transport

const fionread = 0x4004667F // from <sys/filio.h>
