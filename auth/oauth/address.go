package oauth

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// specialPurpose are networks with a special purpose (RFC 6890 and its successors), and
// the addresses of cloud metadata services, as far as package netip has no method for
// them. It is never modified.
var specialPurpose = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// globalUnicast contains all public IPv6 addresses (RFC 4291, section 2.4, and the
// registry that it names). Other networks have a special purpose or none, and some embed
// IPv4 addresses.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// nat64 is the prefix with which IPv6 networks reach IPv4 addresses (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(all ...string) (parsed []netip.Prefix) {
	for _, p := range all {
		parsed = append(parsed, netip.MustParsePrefix(p))
	}
	return parsed
}

// isPublic reports whether an address is a public address of the internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a.Is6() && !globalUnicast.Contains(a) || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range specialPurpose {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// dialPolicy decides which addresses may be dialled for a URL that a server named.
// Public addresses are allowed.
type dialPolicy struct {
	loopback bool           // also the loopback interface
	networks []netip.Prefix // also these networks
}

func (p dialPolicy) allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if isPublic(a) || p.loopback && a.IsLoopback() {
		return true
	}
	for _, n := range p.networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

const dialTimeout = 10 * time.Second

// control implements net.Dialer.ControlContext. It checks the address of the connection
// itself, because a name can resolve to another address each time.
func (p dialPolicy) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s %.100q", ErrForbiddenAddress, network, address)
	}
	return p.check(a.Addr())
}

func (p dialPolicy) check(a netip.Addr) error {
	if !p.allows(a) {
		return fmt.Errorf("%w: %s; to allow it, add its network to Client.Networks", ErrForbiddenAddress, a)
	}
	return nil
}

// checkHost checks a host that a proxy connects to. The proxy resolves names.
func (p dialPolicy) checkHost(host string) error {
	host = strings.TrimSuffix(host, ".")
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	a, err := netip.ParseAddr(host)
	if err == nil {
		return p.check(a)
	}
	if last := host[strings.LastIndexByte(host, '.')+1:]; last == "" || '0' <= last[0] && last[0] <= '9' { // an address in another notation
		return fmt.Errorf("%w: %.100q", ErrForbiddenAddress, host)
	}
	return nil
}
