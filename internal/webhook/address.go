package webhook

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl"
)

// maxURL is the length limit of a URL.
const maxURL = 2048

// CheckURL returns the first fault of the URL of a webhook, and whether it is one of the
// loopback interface.
func CheckURL(text string) (loopback bool, err error) {
	u, fault := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return false, pawl.Errorf(pawl.Invalid, "url: %d bytes: want at most %d", len(text), maxURL)
	case fault != nil || u.Host == "" || u.Hostname() == "" || strings.ContainsAny(text, " \t\r\n"):
		return false, pawl.Errorf(pawl.Invalid, "url %q: want an absolute URL, such as https://example.com/pawl", text)
	case u.User != nil:
		return false, pawl.Errorf(pawl.Invalid, "url of host %q: want none with a user or a password: every request is signed", u.Host)
	case u.Fragment != "":
		return false, pawl.Errorf(pawl.Invalid, "url %q: want none with a fragment", text)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return false, pawl.Errorf(pawl.Invalid, "url %q: port %s: want 1 to 65535", text, port)
		}
	}
	loopback = isLoopback(u)
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return false, pawl.Errorf(pawl.Invalid, "url %q: scheme %q: want https, or http to the loopback interface", text, u.Scheme)
	case u.Scheme == "http" && !loopback:
		return false, &pawl.Error{Kind: pawl.Invalid, Message: "url " + strconv.Quote(text) + ": http is for the loopback interface only", Hint: "use https"}
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		if why := refusal(ip, loopback); why != "" {
			return false, pawl.Errorf(pawl.Invalid, "url %q: %s", text, why)
		}
	}
	return loopback, nil
}

// isLoopback reports whether a URL itself says that it is one of the loopback interface. A name
// that only leads there does not.
func isLoopback(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(u.Hostname(), "localhost")
}

// metadata are addresses at which the clouds tell a machine its secrets, beside those that are
// link-local.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
}

// nat64 is the network of IPv6 addresses that have one of IPv4 in their last 32 bits.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// refusal returns why nothing is sent to an address, or "". loopback says that the URL is one of
// the loopback interface.
func refusal(ip netip.Addr, loopback bool) string {
	ip = ip.WithZone("").Unmap()
	if b := ip.As16(); nat64.Contains(ip) {
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	why := ""
	switch {
	case ip.IsLoopback() && !loopback:
		why = "is of the loopback interface"
	case loopback && !ip.IsLoopback():
		why = "is not of the loopback interface"
	case ip.IsLinkLocalUnicast():
		why = "is link-local, where clouds have metadata"
	case ip.IsUnspecified(), ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		why = "is of no single machine"
	default:
		for _, m := range metadata {
			if ip == m {
				why = "has the metadata of a cloud"
			}
		}
	}
	if why == "" {
		return ""
	}
	return "the address " + ip.String() + " " + why
}

// A refusedError says that nothing is sent to an address.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// guard returns what a dialer calls with the address that it is about to connect to, after the
// name was resolved: what a name leads to may change between two looks.
func guard(loopback bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return err
		}
		if why := refusal(ip, loopback); why != "" {
			return &refusedError{why}
		}
		return nil
	}
}
