package oauth

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"time"
)

// notPublic are the networks that no authorization server on the internet is in:
// those with a special purpose (RFC 6890 and its successors), and single addresses
// at which clouds answer their virtual machines. What netip has a method for is not
// here. It is never changed.
var notPublic = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// unicast is all of IPv6 that the internet is in (RFC 4291, section 2.4, and the
// registry it names). What is elsewhere has a special purpose, or none yet; some of it
// holds an IPv4 address in ways that a translator nearby may know.
var unicast = netip.MustParsePrefix("2000::/3")

// nat64 is where IPv6-only networks put the IPv4 internet (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(all ...string) (parsed []netip.Prefix) {
	for _, p := range all {
		parsed = append(parsed, netip.MustParsePrefix(p))
	}
	return parsed
}

// public reports whether an address is one of the internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a.Is6() && !unicast.Contains(a) || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// reach is which addresses may be dialled for a URL that a peer has named.
type reach struct {
	loopback bool           // this machine, for development
	networks []netip.Prefix // and what the program allows
}

func (r reach) allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if public(a) || r.loopback && a.IsLoopback() {
		return true
	}
	for _, p := range r.networks {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

const dialTimeout = 10 * time.Second

// control lets connections within reach be made. It looks at the very address that is
// about to be connected to: what a name resolved to before proves nothing.
func (r reach) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s %.100q", ErrForbiddenAddress, network, address)
	}
	if !r.allows(a.Addr()) {
		return fmt.Errorf("%w: %s; if it is to be reached, enter its network in Client.Networks", ErrForbiddenAddress, a.Addr())
	}
	return nil
}
