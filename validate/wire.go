package validate

import (
	"context"
	"slices"
	"time"

	"ciddk/ci"
)

// Wire is an end of the link under test at which the certifier acts as the peer, packet by packet, and tests what the
// adapter sends. For hardware it can be an AF_PACKET socket on the other end of the cable; for a model, the other end
// of the model's port; for a software adapter, a UDP socket.
//
// Packets are whole: on Ethernet from the IP header (RoCEv2, no Ethernet header), on InfiniBand from the LRH to the
// VCRC.
type Wire interface {
	// Info returns a description of this end. It does not change.
	Info() WireInfo
	// Send puts a packet on the link unchanged, whether it is valid or not. The certifier has computed its checksums,
	// with the IPv4 identification 0 and DF set. Packets leave in the order of the calls.
	Send(packet []byte) error
	// Recv returns the next packet that has arrived at this end, in order of arrival. The caller owns the slice. If the
	// context ends first, Recv returns its error.
	Recv(ctx context.Context) ([]byte, error)
	// Close makes Recv return an error. It may be called more than once.
	Close() error
}

// WireInfo describes an end of the link.
type WireInfo struct {
	Link ci.Link
	GID  ci.GID // the end's address; on Ethernet it fits an entry of the GID table of the HCA under test
	LID  ci.LID // on InfiniBand
	// Other is a second address from which Send accepts packets, for packets from a wrong source. It is zero if there
	// is none.
	Other ci.GID
	// OtherLID is the same for InfiniBand: a LID that no port of the link has.
	OtherLID ci.LID
	UDPPort  uint16 // destination port on Ethernet: 4791, unless the driver is configured for another
	// Raw is true if the bytes from the BTH on (on InfiniBand from the LRH on) are those that the adapter itself sends
	// and receives. Otherwise they are encoded by the link, such as one within a process. Cases about CRCs, padding and
	// reserved bits then prove nothing about the adapter.
	Raw bool
	// Header is true if the same holds for the whole IP header, and Checksum if it holds for the UDP checksum. Class,
	// Hops and Label are true if it holds for the traffic class (TOS), the hop limit (TTL) and the IPv6 flow label. A
	// UDP socket has at most these three. Fields for which it does not hold are 0.
	Header, Checksum, Class, Hops, Label bool
	// SendsHeader is true if Send leaves traffic class, hop limit and flow label unchanged. UDP sockets send their own.
	SendsHeader bool
	// SendsClass is true if Send leaves at least the traffic class unchanged.
	SendsClass bool
}

// WirePacket is a packet in the evidence of a case.
type WirePacket struct {
	Time     time.Time
	Link     ci.Link
	FromHCA  bool // sent by the adapter under test, otherwise by the certifier
	Data     []byte
	Comments []string // which rules it broke
}

// Wire opens the certifier's end of the link and closes it when the case is over. The case needs Needs.Wire.
func (t *T) Wire() Wire {
	if t.target.Wire == nil {
		t.Harness("the case uses Wire without Needs.Wire")
	}
	w, err := t.target.Wire()
	if err != nil {
		t.Harness("opening an end of the link: %v", err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Logf("closing the end of the link: %v", err)
		}
	})
	return w
}

// Packet records a packet for the capture of a case that fails. It returns the packet's number, from 1.
func (t *T) Packet(p WirePacket) int {
	p.Data = slices.Clone(p.Data)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.packets) >= maxPackets {
		return maxPackets
	}
	t.packets = append(t.packets, p)
	return len(t.packets)
}

// maxPackets limits the packets that are recorded for one case.
const maxPackets = 10000

// Remark adds a comment to the packet with the number that Packet returned, such as the rule that it broke.
func (t *T) Remark(n int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n >= 1 && n <= len(t.packets) {
		p := &t.packets[n-1]
		p.Comments = append(p.Comments, text)
	}
}
